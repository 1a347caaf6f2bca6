"""PBKDF2, with the published vector."""

import hashlib

print(hashlib.pbkdf2_hmac("sha1", b"password", b"salt", 4096).hex())
print(hashlib.pbkdf2_hmac("sha256", b"password", b"salt", 2, 8).hex())
hashlib.scrypt(b"password", salt=b"salt", n=2, r=1, p=1)

# expect kind: "exception"
# expect stdout: "4b007901b765489abead49d926f721d065a429c1\nae4d0c95af6b46d3\n"
# expect hint has: ["pbkdf2_hmac"]
