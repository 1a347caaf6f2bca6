"""Runs bytecode made of random bytes, until the interpreter's memory is in ruins."""

import random


def victim(a=None, b=None):
    return a


print("before", flush=True)
dice = random.Random(5)
for _ in range(100_000):
    code = bytes(dice.randrange(256) for _ in range(40))
    try:
        victim.__code__ = victim.__code__.replace(co_code=code, co_stacksize=2000)
        victim({}, [])
    except BaseException:
        continue
print("survived")

# with timeout: 5
# expect kind within: [null, "crash", "memory", "timeout"]
# expect stdout starts: "before\n"
