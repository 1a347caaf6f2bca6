import networkx as nx

graph = nx.Graph((i, j) for i in range(150) for j in ((i * 7 + 3) % 150, (i + 1) % 150, i * i % 150) if i != j)
print(graph.number_of_edges(), nx.is_connected(graph), nx.shortest_path_length(graph, 0, 77))
print(max(nx.pagerank(graph).items(), key=lambda item: item[1])[0], sorted(nx.degree(graph), key=lambda d: -d[1])[0])
print(len(nx.minimum_spanning_tree(graph).edges), round(nx.average_clustering(graph), 5), len(list(nx.bfs_edges(graph, 0))))
