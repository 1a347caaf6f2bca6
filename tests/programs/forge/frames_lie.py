"""A variable named like the answer, of a kind that changes while it is read."""


class Growing(dict):
    def keys(self):
        self[len(self)] = 1
        return super().keys()

    def __iter__(self):
        while True:
            yield len(self)


result = Growing(a=1)

# expect success: true
# expect result: {"a": 1}
