# aim = "time"
# tries = "Unpacks a stream of members without end."
import gzip
import io
import itertools

member = gzip.compress(bytes(1 << 20))


class Endless(io.RawIOBase):
    source = itertools.cycle([member])

    def readable(self):
        return True

    def readinto(self, buffer):
        data = next(self.source)
        buffer[: len(data)] = data
        return len(data)


with gzip.open(io.BufferedReader(Endless(), 1 << 16)) as stream:
    while stream.read(1 << 20):
        pass
