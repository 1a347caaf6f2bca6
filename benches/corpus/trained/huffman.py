import heapq
from collections import Counter


def codes(text):
    heap = [(n, i, c) for i, (c, n) in enumerate(sorted(Counter(text).items()))]
    heapq.heapify(heap)
    number = len(heap)
    while len(heap) > 1:
        a, b = heapq.heappop(heap), heapq.heappop(heap)
        heapq.heappush(heap, (a[0] + b[0], number, (a[2], b[2])))
        number += 1
    table = {}

    def assign(node, prefix):
        if isinstance(node, str):
            table[node] = prefix or "0"
        else:
            assign(node[0], prefix + "0")
            assign(node[1], prefix + "1")

    assign(heap[0][2], "")
    return table


text = "she sells sea shells by the sea shore, and the shells she sells are surely sea shells. " * 60
table = codes(text)
encoded = "".join(table[c] for c in text)
decoded, reverse, bits = [], {code: c for c, code in table.items()}, ""
for bit in encoded:
    bits += bit
    if bits in reverse:
        decoded.append(reverse[bits])
        bits = ""
print(len(text) * 8, len(encoded), "".join(decoded) == text)
