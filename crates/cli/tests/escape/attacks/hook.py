"""What the attacks share: system calls and memory of the process around the sandbox.

The tests put `WORLD` and `NUMBERS`, of system calls, in front of this file. An attack is a function
with the decorator `attack`, `attack_as_root` if the control needs root, or `stays` for a documented
remainder. It has succeeded if it returns.
"""

import struct

import _host

HOOK = b"belljar was built with the hook of the escape tests: "
MASK = (1 << 64) - 1

AT_FDCWD = -100
AT_EMPTY_PATH = 0x1000
O_RDONLY, O_WRONLY, O_RDWR, O_CREAT = 0, 1, 2, 0o100
O_PATH, O_NONBLOCK = 0o10000000, 0o4000
PROT_READ, PROT_WRITE, PROT_EXEC = 1, 2, 4
MAP_PRIVATE, MAP_ANONYMOUS = 2, 0x20
SIGCHLD = 17
CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x20000, 0x10000000, 0x20000000, 0x40000000
DENIED = {1: "EPERM", 13: "EACCES", 38: "ENOSYS"}
# The kernel was built without it: `ENOSYS`, `EAFNOSUPPORT`.
ABSENT = {38, 97}


class Failed(Exception):
    """A system call returned an error of Linux."""

    def __init__(self, name, number):
        super().__init__(f"{name}: {DENIED.get(number, number)}")
        self.is_denied = number in DENIED
        self.is_absent = number in ABSENT


def call(name, *arguments):
    """Make a system call. Text and bytes are placed in memory, and followed by a zero."""
    words = [place(it) if isinstance(it, (str, bytes)) else it & MASK for it in arguments]
    words += [0] * (6 - len(words))
    frame = HOOK + b"c" + struct.pack("<7Q", NUMBERS[name], *words)
    (result,) = struct.unpack("<q", _host.call(frame))
    if result < 0:
        raise Failed(name, -result)
    return result


def reached(name, *arguments):
    """Make a system call with arguments that the kernel rejects after it has checked the right."""
    try:
        call(name, *arguments)
    except Failed as error:
        if error.is_denied:
            raise


def peek(address, length):
    return _host.call(HOOK + b"r" + struct.pack("<2Q", address, length))


def poke(address, data):
    _host.call(HOOK + b"w" + struct.pack("<Q", address) + data)


def room(length):
    """New memory of the process, zeroed."""
    flags = MAP_PRIVATE | MAP_ANONYMOUS
    return call("mmap", 0, length, PROT_READ | PROT_WRITE, flags, -1, 0)


def place(data):
    data = data.encode() if isinstance(data, str) else data
    address = room(len(data) + 1)
    poke(address, data)
    return address


def vector(*strings):
    """A list of strings as `execve` takes it."""
    places = [place(string) for string in strings]
    return place(struct.pack(f"<{len(places) + 1}Q", *places, 0))


def open_file(path, flags=O_RDONLY, mode=0o600):
    return call("openat", AT_FDCWD, path, flags, mode)


def read_file(path, length=4096):
    buffer = room(length)
    return peek(buffer, call("read", open_file(path), buffer, length))


def make_file(path, text="planted"):
    fd = open_file(path, O_WRONLY | O_CREAT)
    call("write", fd, text, len(text))
    call("close", fd)


def remove_file(path):
    call("unlinkat", AT_FDCWD, path, 0)


def has_secret(data):
    assert WORLD["secret"].encode() in data, data


def in_child(action):
    """Do something in a copy of this process, and wait for it."""
    child = call("clone", SIGCHLD, 0, 0, 0, 0)
    if child == 0:
        action()
        call("exit_group", 0)
    call("wait4", child, 0, 0, 0)


def attempt(attack):
    try:
        attack()
    except Failed as error:
        print("ABSENT" if error.is_absent else "FAILED", error)
    else:
        print("SUCCEEDED")


def attack(function):
    return function


attack_as_root = stays = attack
