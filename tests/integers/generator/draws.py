"""Draws of the legacy generator and of scipy's discrete distributions, near 2^31 and beyond."""

LEGACY = """
geometric(1e-10)
geometric(1e-10, 4)
geometric([1e-10, 0.5, 1e-17], 3)
geometric(1e-300, 2)
negative_binomial(5, 1e-10)
negative_binomial(5, 1e-10, 4)
negative_binomial([5, 2], [1e-12, 0.5])
negative_binomial(5, 1e-25, 2)
poisson(1e10)
poisson(1e10, 4)
poisson([1e10, 3.5])
poisson(2**31)
poisson(2_100_000_000, 3)
poisson(9e18)
poisson(1e19)
zipf(1.1)
zipf(1.1, 20)
zipf(1.02, 8)
zipf([1.05, 3.0])
logseries(1 - 1e-15, 12)
logseries(1 - 1e-16, 12)
logseries(0.999999999999, 12)
logseries(0.6, 12)
noncentral_chisquare(0.5, 1e11)
noncentral_chisquare(0.5, 1e11, 3)
noncentral_chisquare(1, 1e17, 3)
noncentral_chisquare(0.5, 1e20, 2)
noncentral_f(0.5, 3, 1e11, 3)
hypergeometric(2**31 - 1, 2**31 - 1, 100)
hypergeometric(2_000_000_000, 2_000_000_000, 1_000_000_000)
hypergeometric(2_000_000_000, 2_000_000_000, 5, 3)
hypergeometric(2**31 - 1, 7, 2**30, 3)
hypergeometric(5, 2**33, 2**32, 4)
hypergeometric([2_000_000_000], [2_000_000_000], [100])
hypergeometric([2**33, 5], [2**34, 6], [2**33, 3])
hypergeometric(2**33, 2**33, 100, 3)
hypergeometric(2**33, 2**33, 2**33, 3)
hypergeometric(2**33, 2**33, 5, 3)
hypergeometric(2**33, 2**33, 2**35)
hypergeometric(-1, 2**33, 5)
hypergeometric(100, 50, [20, 5, 140])
binomial(2**31 - 1, 0.5, 4)
binomial(2**31 - 1, 1e-9, 4)
binomial(2**31 - 1, 1e-8, 4)
binomial(2**31 - 1, 1 - 1e-9, 4)
binomial(0, 0.5, 3)
binomial([2_000_000_000, 10, 0], [0.3, 0.7, 0.5])
binomial(2**33, 0.5, 2)
binomial([2**33, 10], 0.5)
multinomial(2**31 - 1, [0.2, 0.3, 0.5])
multinomial(2**33, [0.2, 0.3, 0.5])
tomaxint()
tomaxint(3)
tomaxint((2, 2))
random_integers(2**40, size=3)
randint(2**62, size=3)
randint(0, [2**40, 2**50])
randint(2**33)
choice(2**33, 3)
choice(2**40)
choice([2**40, 2**41], 3)
permutation([2**40, 3])
"""

# With a seed, and most of them with a new generator.
DISTRIBUTIONS = """
betabinom.rvs(2**31 - 1, 2, 3
betanbinom.rvs(5, 1e-2, 50
betanbinom.rvs(50, 0.5, 1e11
bernoulli.rvs(0.5
binom.rvs(2**31 - 1, 0.5
boltzmann.rvs(1e-10, 2**40
boltzmann.rvs(1e-9, 10**12
dlaplace.rvs(1e-10
geom.rvs(1e-10
hypergeom.rvs(9 * 10**8, 5 * 10**8, 10**8
logser.rvs(0.999999999999
nbinom.rvs(5, 1e-10
ncf.rvs(0.5, 3, 1e11
nchypergeom_fisher.rvs(140, 80, 60, 0.5
nchypergeom_fisher.rvs(2**31, 80, 60, 0.5
nchypergeom_wallenius.rvs(140, 80, 60, 0.5
nchypergeom_wallenius.rvs(2**31 - 1, 2**30, 60, 0.5
ncx2.rvs(0.5, 1e11
nhypergeom.rvs(20_000, 7_000, 500
planck.rvs(1e-10
planck.rvs(1e-18
poisson.rvs(1e10
poisson_binom.rvs([0.1, 0.5]
randint.rvs(0, 2**40
randint.rvs(-(2**40), [1, 2**50, 2, 3]
skellam.rvs(1e10, 2e10
skellam.rvs(1e9, 2e9
yulesimon.rvs(0.2
zipf.rvs(1.1
zipfian.rvs(1.5, 10**6
multinomial.rvs(2**31 - 1, [0.2, 0.3, 0.5]
multivariate_hypergeom.rvs([2**30, 2**30, 2**31 - 1], 1_000
"""
ONLY_SEEDED = """
betabinom.rvs(2**33, 2, 3
binom.rvs(2**33, 0.5
hypergeom.rvs(4_000_000_000, 2_000_000_000, 1_000
hypergeom.rvs(3_000_000_000, 2_000_000_000, 2_900_000_000
hypergeom.rvs(2**40, 2**39, 1_000
multinomial.rvs(2**33, [0.2, 0.3, 0.5]
multivariate_hypergeom.rvs([2**33, 2**34], 1_000
rv_discrete(values=([2**40, 2**41], [0.5, 0.5])).rvs(
"""
ONLY_NEW = """
betabinom.rvs(2**33, 2, 3
binom.rvs(10**10, 0.5
multinomial.rvs(2**33, [0.2, 0.8]
"""
SEEDED = "size=4, random_state=1)"
NEW = "size=4, random_state=np.random.default_rng(1))"


def expressions():
    """Every expression, once."""
    for each in LEGACY.split("\n")[1:-1]:
        yield f"np.random.RandomState(1).{each}"
    for each in LEGACY.split("\n")[1:8:3]:
        yield f"[np.random.seed(1), np.random.{each}][1]"
    kinds = ((SEEDED, DISTRIBUTIONS + ONLY_SEEDED), (NEW, DISTRIBUTIONS + ONLY_NEW))
    for given, distributions in kinds:
        for each in distributions.split("\n"):
            if each:
                yield f"scipy.stats.{each}{'' if each.endswith('(') else ', '}{given}"
