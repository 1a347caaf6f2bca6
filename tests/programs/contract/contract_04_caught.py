try:
    block = bytearray(256 << 20)
except MemoryError:
    print("too large")

# with memory_mib: 128
# expect success: true
# expect stdout: "too large\n"
