import numpy as np

y, x = np.mgrid[0:180, 0:220]
image = ((np.sin(x / 9.0) + np.cos(y / 13.0)) * 60 + 128).astype(np.uint8)
kernel = np.array([[1, 2, 1], [2, 4, 2], [1, 2, 1]]) / 16
padded = np.pad(image.astype(float), 1, mode="edge")
blurred = sum(kernel[a, b] * padded[a : a + 180, b : b + 220] for a in range(3) for b in range(3))
edges = np.hypot(*np.gradient(blurred))
counts = np.bincount(image.ravel(), minlength=256)
print(blurred.mean().round(4), (edges > 5).sum(), counts.argmax(), np.rot90(image).shape, image[::2, ::2].sum())
