"""numpy writes and reads plain files."""

import numpy as np

values = np.linspace(0, 1, 5).reshape(1, 5)
values.tofile("binary")
print((np.fromfile("binary") == values).all(), np.fromfile("binary", count=2, offset=8))
with open("mixed", "wb") as file:
    file.write(b"head")
    np.arange(4, dtype="<i2")[::2].tofile(file)
    file.write(b"tail")
with open("mixed", "rb") as file:
    print(file.read(4), np.fromfile(file, "<i2", 2), file.read())
values.tofile("text", sep=" ", format="%.2f")
print(np.fromfile("text", sep=" "))

# expect stdout: "True [0.25 0.5 ]\nb'head' [0 2] b'tail'\n[0.   0.25 0.5  0.75 1.  ]\n"
# expect contents: {"text": "0.00 0.25 0.50 0.75 1.00"}
