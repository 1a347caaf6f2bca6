"""Fresh random numbers for every run from the same image.

Modules imported before the image was captured carry the image's random state. `random`,
`numpy.random`'s global generator and `tempfile` are reseeded from the request; everything else asks
the operating system, which is the host.
"""

import sys

_modules = sys.modules


class _State:
    __slots__ = ("entropy", "seed")

    def __init__(self):
        self.entropy = None
        self.seed = None


_STATE = _State()


def reseed(entropy, deterministic):
    """Reseed, unless this entropy was used already: a session keeps its generators.

    In deterministic mode, the generators have the state set by `random.seed(seed)` and
    `numpy.random.seed(seed)`, so that a run can be repeated elsewhere.
    """
    if entropy == _STATE.entropy:
        return
    _STATE.entropy = entropy
    if deterministic is None:
        _STATE.seed = None
        wide, narrow = int(entropy[:48], 16), int(entropy[48:56], 16)
    else:
        wide = _STATE.seed = deterministic["seed"]
        narrow = wide & 0xFFFFFFFF
    modules = _modules
    if "random" in modules:
        modules["random"]._inst.seed(wide)
    if "numpy.random.mtrand" in modules:
        _seed_numpy(modules["numpy.random.mtrand"], narrow)
    if "tempfile" in modules and modules["tempfile"]._name_sequence is not None:
        modules["tempfile"]._name_sequence = None


def _seed_numpy(module, seed):
    # `numpy.random.seed` takes fifty times as long. The other half of the state, a second cached
    # gaussian, is empty in an image: `forget` has cleared it.
    module._rand._bit_generator._legacy_seeding(seed)


def forget():
    """While an image is sealed: leave no half-used generator behind."""
    _STATE.entropy = _STATE.seed = None
    modules = sys.modules
    if "random" in modules:
        modules["random"].seed(0)
    if "numpy.random.mtrand" in modules:
        modules["numpy.random.mtrand"].seed(0)
    if "tempfile" in modules:
        modules["tempfile"]._name_sequence = None
        modules["tempfile"].tempdir = None
    if "uuid" in modules:
        modules["uuid"]._node = modules["uuid"]._last_timestamp = None


def imported(module):
    """After a run has imported `random` or `numpy.random` itself: apply the seed there, too."""
    if _STATE.seed is None:
        return
    if module.__name__ == "random":
        module.seed(_STATE.seed)
    else:
        module.seed(_STATE.seed & 0xFFFFFFFF)
