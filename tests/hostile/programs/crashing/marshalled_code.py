# aim = "alive"
# tries = "Loads a code object that somebody damaged."
import marshal

data = bytearray(marshal.dumps(compile("x = [i for i in range(9)]\nf = lambda: x\nf()", "<s>", "exec")))
for at in range(20, len(data)):
    broken = bytearray(data)
    broken[at] ^= 0x41
    try:
        exec(marshal.loads(bytes(broken)), {})
    except Exception:
        pass
