import zlib

print("started")
data = bytes(1_000_000)
while True:
    zlib.compress(data, 9)
