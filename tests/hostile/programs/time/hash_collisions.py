# aim = "time"
# tries = "Fills a table with keys that all collide."
modulus = (1 << 61) - 1
{i * modulus * ((1 << 31) - 1) * (1 << 32): None for i in range(1, 60_000)}
