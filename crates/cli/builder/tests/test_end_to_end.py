"""Builds packages, bakes an image with each, and runs a program that uses it.

BELLJAR is the command. The packages are downloaded, and compiled for minutes.
"""

import json
import os
import subprocess

import pytest

BELLJAR = os.environ.get("BELLJAR")
pytestmark = pytest.mark.skipif(BELLJAR is None, reason="BELLJAR is not set")

# Values that JSON can have.
VALUES = """
import json, random
random.seed(1)
def value(depth=0):
    kind = random.randrange(7 if depth < 4 else 5)
    if kind == 0: return random.randint(-2**53, 2**53)
    if kind == 1: return random.uniform(-1e9, 1e9)
    if kind == 2: return "".join(chr(random.randrange(0xd7ff)) for _ in range(30))
    if kind < 5: return [None, True][kind - 3]
    if kind == 5: return [value(depth + 1) for _ in range(random.randrange(6))]
    return {str(random.random()): value(depth + 1) for _ in range(random.randrange(6))}
def fails(kind, function, *arguments):
    try: function(*arguments)
    except kind: return True
"""

PROGRAMS = {
    "orjson==3.13.0": """
for _ in range(1000):
    v = value()
    assert json.loads(orjson.dumps(v)) == v == orjson.loads(json.dumps(v))
big = [{"id": i, "v": i / 7} for i in range(20000)]
assert orjson.loads(orjson.dumps(big)) == big
assert fails(orjson.JSONDecodeError, orjson.loads, "[1,]")
assert fails(orjson.JSONEncodeError, orjson.dumps, object())
""",
    "ujson==6.1.0": """
for _ in range(1000):
    v = value()
    assert json.loads(ujson.dumps(v)) == v == ujson.loads(json.dumps(v))
assert ujson.loads("1e400") == float("inf")
assert fails(ujson.JSONDecodeError, ujson.loads, "[1,]")
""",
    "msgpack==1.2.4": """
from msgpack import fallback
assert msgpack.Packer is not fallback.Packer
for _ in range(1000):
    v = value()
    packed = msgpack.packb(v)
    assert packed == fallback.Packer().pack(v) and msgpack.unpackb(packed) == v
assert fails(OverflowError, msgpack.packb, 2**64)
assert fails(ValueError, msgpack.unpackb, b"\\xdc")
""",
    "_decimal==3.13.5": """
import _pydecimal
for _ in range(1000):
    a, b = (f"{random.randint(-10**20, 10**20)}e{random.randint(-30, 30)}" for _ in "ab")
    name = random.choice(["__add__", "__sub__", "__mul__", "__truediv__", "compare", "max"])
    c, py = (getattr(m.Decimal(a), name)(m.Decimal(b)) for m in (_decimal, _pydecimal))
    assert str(c) == str(py), (a, b, name)
assert repr(_decimal.IEEEContext(256)) == repr(_pydecimal.IEEEContext(256))
assert fails(ValueError, _decimal.IEEEContext, 512)
assert fails(_decimal.DivisionByZero, lambda: _decimal.Decimal(1) / 0)
""",
}


def belljar(*arguments, cwd):
    done = subprocess.run(
        [BELLJAR, *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("package", PROGRAMS)
def test_a_package_works_in_the_sandbox(package, tmp_path):
    module = package.split("==")[0]
    made = belljar("package", "build", "--json", "--out", "wheels", package, cwd=tmp_path)
    wheel = json.loads(made)["wheel"]
    image = f"native-{module.strip('_')}"
    recipe = f'name = "{image}"\nbase = "core"\nwheels = [{json.dumps(wheel)}]\n'
    (tmp_path / "image.toml").write_text(recipe + f'imports = ["{module}"]\n')
    (tmp_path / "program.py").write_text(VALUES + f"import {module}\n" + PROGRAMS[package])
    belljar("image", "build", "image.toml", cwd=tmp_path)
    limit = ["--timeout", "120"]
    try:
        belljar("run", *limit, "--image", image, "program.py", cwd=tmp_path)
        session = ["--session", "state"]
        belljar("run", *limit, "--image", image, *session, "-c", f"import {module}", cwd=tmp_path)
        belljar("run", *limit, *session, "program.py", cwd=tmp_path)
    finally:
        belljar("image", "remove", image, cwd=tmp_path)
