print("asking")
block = bytearray(256 << 20)

# with memory_mib: 128
# expect kind: "memory"
# expect error: "Memory limit exceeded during code execution"
# expect line: 2
# expect stdout: "asking\n"
