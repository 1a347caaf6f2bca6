"""An exception about which nothing is true."""


class Strange(Exception):
    __module__ = "builtins"
    __qualname__ = "SystemExit"

    @property
    def __class__(self):
        return SystemExit

    @property
    def code(self):
        return 0

    def __str__(self):
        return 5

    def __repr__(self):
        raise MemoryError

    @property
    def __notes__(self):
        raise SystemExit(0)

    @property
    def __cause__(self):
        return self

    @property
    def __traceback__(self):
        raise SystemExit(0)


raise Strange("x")

# expect success: false
# expect kind: "exception"
# expect line: 35
