"""Random numbers: fresh for every run, repeatable on request, kept in a session."""

import random

import numpy

CODE = "import random, numpy\nresult = [random.random(), numpy.random.rand(), random.gauss(0, 1)]"
BAKE = (
    "import random, numpy, tempfile\n"
    "random.gauss(0, 1); numpy.random.randn()\ntempfile.gettempdir(); "
    "tempfile._get_candidate_names()"
)


def test_runs_from_one_image_differ(runs):
    values = set()
    for number in range(3):
        order = runs.request(CODE, entropy=f"{number}" * 64)
        values |= set(runs.of([order], bake=BAKE).value())
    assert len(values) == 9


def test_a_seed_gives_what_it_gives_elsewhere(runs):
    random.seed(42)
    numpy.random.seed(42)
    expected = [random.random(), numpy.random.rand(), random.gauss(0, 1)]
    for bake in ("", BAKE):
        order = runs.request(CODE, deterministic={"seed": 42})
        assert runs.of([order], bake=bake).value() == expected


def test_a_wide_seed(runs):
    order = runs.request(CODE, deterministic={"seed": 2**63})
    assert runs.of([order], bake=BAKE).value() == runs.of([order]).value()


def test_a_session_keeps_its_generators(runs):
    done = runs.session("import random; random.seed(1)", "result = random.random()")
    random.seed(1)
    assert done.value(1) == random.random()


def test_other_entropy_reseeds_a_session(runs):
    first = runs.request("import random; random.seed(1)", session=True)
    second = runs.request("result = random.random()", session=True, entropy="f" * 64)
    random.seed(1)
    assert runs.of([first, second]).value(1) != random.random()
