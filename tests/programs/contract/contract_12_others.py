"""What has no form of its own is its `repr`."""


class Plain:
    def __repr__(self):
        return "Plain()"


class Silent:
    def __repr__(self):
        raise ValueError("no")


def function():
    pass


result = [Plain(), int, [1].append.__name__, type(Silent()).__name__, Silent(), ...]

# expect result: ["Plain()", "<class 'int'>", "append", "Silent", "<unreadable Silent object>", "Ellipsis"]
