class Node:
    def __init__(self, value, next=None):
        self.value, self.next = value, next


class Stack:
    def __init__(self):
        self.head, self.size = None, 0

    def push(self, value):
        self.head = Node(value, self.head)
        self.size += 1

    def pop(self):
        if self.head is None:
            raise IndexError("empty")
        node, self.head = self.head, self.head.next
        self.size -= 1
        return node.value

    def __iter__(self):
        node = self.head
        while node:
            yield node.value
            node = node.next

    def __bool__(self):
        return self.head is not None


stack = Stack()
for i in range(12_000):
    stack.push(i)
    if i % 3 == 2:
        stack.pop()
total = sum(stack)
while stack:
    total -= stack.pop()
print(total, stack.size)
