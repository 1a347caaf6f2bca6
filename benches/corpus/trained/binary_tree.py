class Node:
    __slots__ = ("key", "left", "right")

    def __init__(self, key):
        self.key, self.left, self.right = key, None, None


def insert(root, key):
    if root is None:
        return Node(key)
    if key < root.key:
        root.left = insert(root.left, key)
    elif key > root.key:
        root.right = insert(root.right, key)
    return root


def walk(root):
    if root:
        yield from walk(root.left)
        yield root.key
        yield from walk(root.right)


def height(root):
    return 0 if root is None else 1 + max(height(root.left), height(root.right))


root, value = None, 12345
for _ in range(4_000):
    value = (value * 1_103_515_245 + 12_345) % (1 << 31)
    root = insert(root, value)
keys = list(walk(root))
print(len(keys), keys == sorted(keys), height(root))
