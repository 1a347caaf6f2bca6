# aim = "memory"
# tries = "Keys of one class, with tables that never share."
class Node:
    pass


held = []
while True:
    node = Node()
    node.__dict__ = {str(i + len(held)): i for i in range(300)}
    held.append(node)
