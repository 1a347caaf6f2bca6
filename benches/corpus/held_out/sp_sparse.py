import numpy as np
from scipy import linalg, ndimage, sparse
from scipy.sparse.linalg import spsolve

matrix = sparse.diags([-1, 2.1, -1], [-1, 0, 1], shape=(2_000, 2_000), format="csr")
solution = spsolve(matrix, np.ones(2_000))
print(solution.max().round(6), matrix.nnz, (matrix @ matrix).nnz)
rng = np.random.default_rng(0)
a = rng.normal(size=(50, 50))
print(linalg.expm(a / 50).trace().round(5), np.abs(linalg.eigvals(a)).max().round(5), linalg.lu(a)[2].shape)
image = ndimage.gaussian_filter(rng.random((120, 120)), 3)
labels, count = ndimage.label(image > image.mean())
print(count, ndimage.sum(image, labels, range(1, 4)).round(3))
