# aim = "time"
# tries = "Derives a key with a billion rounds, in one call of C."
import hashlib

hashlib.pbkdf2_hmac("sha256", b"x", b"y", 2_000_000_000)
