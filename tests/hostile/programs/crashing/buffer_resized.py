# aim = "alive"
# tries = "Shrinks a buffer while a view of it is in use."
# control = "CPython refuses to resize it; the class stays worth trying"
data = bytearray(1 << 20)


class Shrinks:
    def __index__(self):
        del data[:]
        return 7


view = memoryview(data)
try:
    view[0] = Shrinks()
    view.release()
    data[500_000 : 500_001] = [Shrinks()]
    data[900_000] = Shrinks()
except (BufferError, IndexError) as error:
    print(error)
