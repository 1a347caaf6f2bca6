"""Expressions whose answers depend on an order, a sign or a seed, not on the width of integers."""

LEGACY = """
beta(2, 3, 3) binomial(10, 0.3, 5) chisquare(3, 3) dirichlet([1, 2, 3]) exponential(2, 3)
f(2, 3, 3) gamma(0.5, 2, 3) gamma(3, 2, 3) geometric(0.2, 5) gumbel(1, 2, 3)
hypergeometric(10, 8, 6, 5) laplace(1, 2, 3) logistic(1, 2, 3) lognormal(1, 2, 3)
logseries(0.6, 5) multinomial(20, [0.2, 0.3, 0.5]) multivariate_normal([0, 0], [[2, 1], [1, 2]])
negative_binomial(5, 0.3, 5) noncentral_chisquare(3, 2, 3) noncentral_f(3, 4, 2, 3)
normal(1, 2, 3) pareto(2, 3) poisson(3, 5) poisson(1000, 5) power(2, 3) rayleigh(2, 3)
standard_cauchy(3) standard_exponential(3) standard_gamma(2, 3) standard_normal(3)
standard_t(3, 3) triangular(0, 1, 3, 3) uniform(1, 2, 3) vonmises(1, 2, 3) wald(1, 2, 3)
weibull(2, 3) zipf(2.5, 5) permutation(12) choice(20, 6) choice(20, 6, replace=False)
choice(3, 6, p=[0.2, 0.3, 0.5]) bytes(6) binomial(1000, 0.5, 5) binomial(10**6, 0.5, 4)
"""
ONLY_LEGACY = """
rand(3) randn(3) random_sample(3) randint(10, size=6) randint(2**40, size=3)
randint(-(2**62), 2**62, 3) randint(2**31 - 1, size=3) randint(2**32, size=3)
randint(2**33, size=3, dtype="uint64") randint(200, size=6, dtype="uint8")
"""
ONLY_NEW = """
random(3) random(3, dtype="float32") integers(10, size=6) integers(2**31, size=3)
integers(2**32, size=3) integers(2**32 + 1, size=3) integers(2**40, size=3)
integers(-(2**63), 2**63 - 1, 3) integers(0, 2**63, 3, dtype="uint64")
integers(0, 2**32, 3, endpoint=True) integers(200, size=6, dtype="uint8")
integers(2**32, size=3, dtype="uint32") integers([5, 2**40], size=2)
multivariate_hypergeometric([5, 6, 7], 8) permuted(range(12)) standard_normal(3, dtype="float32")
standard_gamma(2, 3, dtype="float32") shuffle(list(range(9)))
multivariate_normal([0, 0], [[2, 1], [1, 2]], method="cholesky") poisson(1e10, 3)
binomial(10**10, 0.5, 3) geometric(1e-10, 3) zipf(1.1, 4) choice(2**33, 3)
spawn(1)[0].random(2)
"""
GENERATORS = [
    "np.random.default_rng(1)",
    *(f"np.random.Generator(np.random.{kind}(5))" for kind in ("MT19937", "Philox", "SFC64")),
]

SORTED = [f"(np.arange({count}) * 7 % {ties})" for count, ties in ((12, 3), (40, 5), (1000, 11))]
KINDS = ("quicksort", "stable", "heapsort", "mergesort")
TYPES = ("int64", "int32", "int16", "uint8", "float64", "float32", "bool", "object", "U3", "M8[s]")
FRAME = 'pd.DataFrame({"a": np.arange(40) * 7 % 3, "b": np.arange(40) * 5 % 4})'
ORDERS = [
    *(f'{FRAME}.sort_values("a", kind="{kind}").index' for kind in KINDS),
    f'{FRAME}.sort_values("a").index',
    f'{FRAME}.sort_values("a", ascending=False).index',
    f'{FRAME}.sort_values(["a", "b"]).index',
    f'{FRAME}.sort_values(["b", "a"], ascending=[False, True]).index',
    f'{FRAME}.set_index("a").sort_index()["b"].to_numpy()',
    f'{FRAME}["a"].sort_values().index',
    f'{FRAME}["a"].argsort().to_numpy()',
    f'{FRAME}["b"].nlargest(7).index',
    f'{FRAME}["b"].nsmallest(7, keep="last").index',
    f'{FRAME}.nlargest(7, ["b", "a"]).index',
    f'{FRAME}["b"].rank(method="first").to_numpy()[:9]',
    f'{FRAME}["b"].value_counts().index',
    f'{FRAME}.groupby("a").head(2).index',
    f"{FRAME}.drop_duplicates().index",
    f'{FRAME}.merge({FRAME}.drop_duplicates("a"), on="a").b_x.to_numpy()',
    f'pd.factorize({FRAME}["b"])[0]',
    f'np.lexsort(({FRAME}["a"], {FRAME}["b"]))',
    "np.argpartition(np.arange(40) * 7 % 5, 20)",
    "np.unique(np.arange(40) * 7 % 5, return_index=True, return_inverse=True)[1:]",
    "np.unique(np.arange(1000) * 7 % 11, return_index=True, return_counts=True)",
    'np.unique(np.array(list("banana")), return_index=True)',
    "np.unique([[1, 2], [0, 1], [1, 2]], axis=0, return_index=True)",
    "np.argmax([1, 3, 3]), np.argmin([1, 1, 0, 0])",
    "str({(3, 4), (1, 2), (5, 6), (7, 8)})",
    "str({0.5, 1.25, 2.75, -3.5})",
    "str({2**40, 2**41, 2**42, 7})",
    "str({5, 3, 100, -2})",
    "str({None, 3, True, 7})",
]

SIZES = (1, 2, 3, 5, 7, 8, 13, 16, 17, 30, 64, 97, 128, 243, 251, 1000, 1009, 1024, 4096, 5003)
SIGNAL = "np.random.default_rng(2).random({0})"
TRANSFORMS = [
    f"np.fft.fft({SIGNAL})[[0, {{0}} // 2, -1]]",
    f"np.fft.ifft({SIGNAL})[[0, {{0}} // 2, -1]]",
    f"np.fft.irfft(np.fft.rfft({SIGNAL}), {{0}})[[0, {{0}} // 2, -1]]",
    f"scipy.fft.dct({SIGNAL})[[0, {{0}} // 2, -1]]",
    f"scipy.fft.rfft({SIGNAL})[[0, -1]]",
]

MATRIX = "np.random.default_rng({0}).integers(-9, 10, ({0}, {0}))"
ROOTS = (2, 3, 4, 7, 20)
FACTORS = [
    f"np.linalg.eig({MATRIX})[0][:3]",
    f"np.linalg.eig({MATRIX})[1][0][:3]",
    f"np.linalg.eigh({MATRIX})[0][:3]",
    f"abs(np.linalg.eigh({MATRIX})[1][0][:3])",
    f"abs(np.linalg.svd({MATRIX})[0][0][:3])",
    f"np.linalg.svd({MATRIX})[1][:3]",
    f"abs(np.linalg.svd({MATRIX})[2][0][:3])",
    f"np.linalg.qr({MATRIX})[0][0][:3]",
    f"np.linalg.qr({MATRIX})[1][0][:3]",
    f"np.linalg.lstsq({MATRIX}, np.arange({{0}}))[0][:3]",
    f"np.linalg.lstsq({MATRIX}[:, :-1], np.arange({{0}}))[:3:2]",
    f"np.linalg.det({MATRIX})",
    f"np.linalg.slogdet({MATRIX})",
    f"np.linalg.inv({MATRIX})[0][:3]",
    f"np.linalg.pinv({MATRIX})[0][:3]",
    f"np.linalg.solve({MATRIX}, np.arange({{0}}))[:3]",
    f"np.linalg.matrix_rank({MATRIX})",
    f"np.linalg.cholesky({MATRIX} @ {MATRIX}.T + np.eye({{0}}))[-1][:3]",
    f"scipy.linalg.lu({MATRIX})[0][0]",
    f"scipy.linalg.schur({MATRIX})[1][0][:3]",
    f"scipy.linalg.hessenberg({MATRIX})[0][:3]",
    f"scipy.linalg.expm({MATRIX} / 9)[0][:3]",
    f"scipy.linalg.qr({MATRIX}, pivoting=True)[2]",
    f"scipy.linalg.ldl({MATRIX} + {MATRIX}.T)[2]",
]
DEGENERATE = [
    "np.linalg.eigh([[4, 1, 3], [1, 2, 0], [3, 0, -5]])[1][0]",
    f"np.linalg.eigh({MATRIX.format(4)})[1][0][:3]",
    f"np.linalg.svd({MATRIX.format(3)})[0][0]",
    "np.linalg.eig(np.eye(3))[1]",
    "np.linalg.eigh(np.ones((3, 3)))[0] > 0.5",
    "np.linalg.eigh(np.ones((3, 3)))[1][:, 0]",
    "np.linalg.svd(np.ones((3, 3)))[0][:, 1]",
    "np.linalg.svd(np.eye(3))[2]",
    "np.linalg.eig([[0, 1], [-1, 0]])[0]",
    "np.linalg.det(np.arange(9).reshape(3, 3))",
    "np.linalg.qr(np.zeros((2, 2)))[0]",
    "np.roots([1, -6, 11, -6])",
]

METHODS = (
    "Nelder-Mead", "Powell", "CG", "BFGS", "L-BFGS-B", "TNC", "COBYLA", "COBYQA", "SLSQP",
    "trust-constr",
)  # fmt: skip
ROSEN = "scipy.optimize.minimize(scipy.optimize.rosen, [1.3, 0.7], method={!r})"
BOWL = "scipy.optimize.minimize(lambda x: (x[0] - 1)**2 + (x[1] - 2.5)**2, [2, 0], method={!r})"


def expressions():
    """Every expression, once."""
    for each in drawn(LEGACY + ONLY_LEGACY):
        yield f"np.random.RandomState(1).{each}"
    for generator in GENERATORS:
        for each in drawn(LEGACY + ONLY_NEW):
            yield f"{generator}.{each}"
    for values in SORTED:
        for kind in KINDS:
            for each in TYPES:
                found = f'np.argsort({values}.astype("{each}"), kind="{kind}")'
                yield f"({found} * np.arange({found}.size)).sum()" if "1000" in values else found
    yield from ORDERS
    for size in SIZES:
        yield from (each.format(size) for each in TRANSFORMS)
    for size in ROOTS:
        yield from (each.format(size) for each in FACTORS)
    yield from DEGENERATE
    for method in METHODS:
        yield from (f"np.round({each.format(method)}.x, 3)" for each in (ROSEN, BOWL))
    for each in (ROSEN, BOWL):
        yield from (f"{each.format('COBYLA')}.{what}" for what in ("x", "nfev"))


def drawn(text):
    """The calls in a list: one ends where its brackets do."""
    call, depth = "", 0
    for word in text.split():
        call = f"{call} {word}".strip()
        depth += word.count("(") - word.count(")")
        if not depth:
            yield call
            call = ""
