"""Bytecode that no compiler makes, which reads where there is no memory."""

import opcode


def victim():
    pass


print("before")
more, load, leave = (opcode.opmap[n] for n in ("EXTENDED_ARG", "LOAD_CONST", "RETURN_VALUE"))
code = bytes([opcode.opmap["RESUME"], 0, more, 0x10, more, 0xFF, more, 0xFF, load, 0xF0, leave, 0])
victim.__code__ = victim.__code__.replace(co_code=code, co_stacksize=100)
victim()

# expect kind: "crash"
# expect stdout: "before\n"
