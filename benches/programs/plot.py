import io

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt

plt.plot([1, 4, 2, 8, 5, 7])
plt.title("a line")
plt.xlabel("x")
out = io.BytesIO()
plt.savefig(out)
plt.close()
print(out.getvalue()[:4] == b"\x89PNG")
