# aim = "memory"
# tries = "Chains exceptions whose frames hold ballast."
error = None
while True:
    try:
        ballast = bytearray(b"x" * 100_000)
        raise ValueError(ballast) from error
    except ValueError as caught:
        error = caught
