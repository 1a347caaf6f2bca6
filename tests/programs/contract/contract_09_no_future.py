"""No flag of the runner's own code changes how this is compiled."""

import dis


def annotated(x: int) -> str:
    return str(x)


print(annotated.__annotations__)
print(dis.get_instructions is not None, __debug__)
print(compile("0", "", "eval").co_flags & 0xFFFF0000)

# expect stdout: "{'x': <class 'int'>, 'return': <class 'str'>}\nTrue True\n0\n"
