# aim = "memory"
# tries = "Asks for more than its limit at once, and touches it."
held = bytearray(b"x") * (768 << 20)
