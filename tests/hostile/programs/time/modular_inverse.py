# aim = "time"
# tries = "Computes a power modulo a number of millions of bits."
pow(3, (1 << 200_000) - 1, (1 << 200_000) - 3)
