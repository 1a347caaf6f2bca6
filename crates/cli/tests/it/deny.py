"""Runs a program under a seccomp filter that refuses some system calls with EPERM, as container
runtimes do: deny.py NUMBER,NUMBER PROGRAM ARGUMENTS... On x86-64 only."""

import ctypes
import os
import struct
import sys

NO_NEW_PRIVS, SET_SECCOMP, FILTER = 38, 22, 2
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | 1


def step(code: int, yes: int, no: int, value: int) -> bytes:
    return struct.pack("HBBI", code, yes, no, value)


numbers = [int(number) for number in sys.argv[1].split(",")]
steps = [step(LOAD, 0, 0, 0)]
for number in numbers:
    steps += [step(JUMP_IF_EQUAL, 0, 1, number), step(RETURN, 0, 0, REFUSE)]
steps.append(step(RETURN, 0, 0, ALLOW))
code = ctypes.create_string_buffer(b"".join(steps))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
for call in ((NO_NEW_PRIVS, 1, 0, 0, 0), (SET_SECCOMP, FILTER, ctypes.addressof(program), 0, 0)):
    if libc.prctl(*(ctypes.c_ulong(value) for value in call)):
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
os.execv(sys.argv[2], sys.argv[2:])
