# aim = "memory"
# tries = "Derives a key with a parameter for as much memory as there is."
import hashlib

hashlib.scrypt(b"x", salt=b"y", n=1 << 20, r=8, p=1, maxmem=1 << 31)
