"""An exit whose code is not what it seems."""


class Code(int):
    def __eq__(self, other):
        return True

    def __int__(self):
        return 0

    __index__ = __int__
    __hash__ = None


raise SystemExit(Code(3))

# expect success: false
# expect kind: "exit"
# expect exit_status: 3
