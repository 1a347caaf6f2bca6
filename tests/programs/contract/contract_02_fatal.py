"""Bytecode that no compiler makes ends the interpreter, which says why."""


def inner():
    pass


def outer():
    inner()


inner.__code__ = inner.__code__.replace(co_code=bytes(len(inner.__code__.co_code)))
print("so far")
outer()

# expect kind: "crash"
# expect error has: ["FatalError: the interpreter gave up: ", "Executing a cache"]
# expect line: 4
# expect stdout: "so far\n"
# expect stderr has: ["Fatal Python error: ", "line 9 in outer"]
# expect stderr lacks: ["belljar", "reactor"]
# expect traceback has: ["Fatal Python error: ", "line 14 in <module>"]
