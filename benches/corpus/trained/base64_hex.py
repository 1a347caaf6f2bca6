import base64
import binascii
import hashlib

data = bytes(range(256)) * 8
digest = hashlib.sha256()
for i in range(300):
    text = base64.b64encode(data[i:]).decode()
    back = base64.b64decode(text)
    digest.update(back)
    digest.update(binascii.hexlify(back[:64]))
print(digest.hexdigest(), hashlib.md5(data).hexdigest(), base64.b32encode(b"belljar").decode())
