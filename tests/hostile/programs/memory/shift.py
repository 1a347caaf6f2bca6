# aim = "memory"
# tries = "Shifts a number by billions of bits."
held = [(1 << (1 << 30)) | i for i in range(8)]
