# aim = "alive"
# tries = "Joins a sequence that shrinks while it is read."
# control = "a bug that was mended; the class stays worth trying"
parts = bytearray(b"x"), *[bytearray(1000) for _ in range(1000)]


class Shrinks(list):
    def __iter__(self):
        for part in parts:
            yield part
            del part[:]


b"".join(Shrinks())
",".join(str(p) for p in parts)
