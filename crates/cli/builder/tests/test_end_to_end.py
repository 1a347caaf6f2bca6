"""Builds packages, bakes an image with each, and runs a program that uses it.

BELLJAR is the command. The packages are downloaded, and compiled for minutes.
"""

import json
import os
import subprocess
from pathlib import Path

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
    "xxhash==4.1.0": """
h = xxhash.xxh64(b"a")
h.update(b"b")
assert h.hexdigest() == xxhash.xxh64(b"ab").hexdigest() == xxhash.xxh64_hexdigest(b"ab")
copy = h.copy()
h.reset()
assert h.intdigest() != copy.intdigest() and copy.digest() == xxhash.xxh64_digest(b"ab")
""",
    "lz4==4.4.5": """
import lz4.block, lz4.frame
for size in (0, 1, 10**6):
    data = random.randbytes(size // 2) + bytes(size // 2)
    assert lz4.frame.decompress(lz4.frame.compress(data)) == data
    assert lz4.block.decompress(lz4.block.compress(data)) == data
with lz4.frame.LZ4FrameCompressor() as c:
    packed = c.begin() + c.compress(data) + c.flush()
assert lz4.frame.LZ4FrameDecompressor().decompress(packed) == data
assert fails(RuntimeError, lz4.frame.decompress, b"no frame")
""",
    "brotli==1.2.1": """
data = random.randbytes(1000) + bytes(10**5)
c, d = brotli.Compressor(), brotli.Decompressor()
packed = c.process(data) + c.flush() + c.finish()
assert d.process(packed) == brotli.decompress(packed) == data and d.is_finished()
assert fails(brotli.error, brotli.decompress, b"no stream")
""",
    "bitarray==3.12.3": """
from bitarray import bitarray, util
a = bitarray("0110 1\\n1")
assert (a.count(), a.find(bitarray("11")), a.tobytes(), util.ba2int(a)) == (4, 1, b"l", 27)
assert ~~(a * 10**5) == a * 10**5
assert fails(ValueError, bitarray, "2")
""",
    "bottleneck==1.6.0": """
import numpy as np
for kind in (np.float64, np.float32, np.int64, np.int32):
    a = (np.random.default_rng(1).random((7, 11)) * 100).astype(kind)
    for name in ("nansum", "nanmean", "nanvar", "nanmax", "nanargmin", "median", "rankdata"):
        fast, slow = getattr(bottleneck, name), getattr(bottleneck.slow, name)
        assert fast is not slow and np.allclose(fast(a, axis=1), slow(a, axis=1), rtol=1e-4)
    fast, slow = (m.move_median(a, 2, 1) for m in (bottleneck, bottleneck.slow))
    assert np.allclose(fast, slow)
assert fails(ValueError, bottleneck.nansum, a, 9)
""",
    "pyyaml==6.0.3": """
import yaml._yaml
assert yaml.__with_libyaml__ and yaml._yaml.get_version_string() == "0.2.5"
for _ in range(200):
    v = value()
    text = yaml.dump(v, Dumper=yaml.CSafeDumper)
    assert yaml.load(text, yaml.CSafeLoader) == yaml.load(text, yaml.SafeLoader) == v
assert fails(yaml.YAMLError, yaml.load, "a: [1", yaml.CLoader)
""",
    "pillow==13.0.0": """
import io
from PIL import Image, ImageDraw, ImageFont, features
names = ["jpg", "jpg_2000", "zlib", "libtiff", "webp", "freetype2", "littlecms2"]
assert all(features.check(name) for name in names)
picture = Image.radial_gradient("L").resize((640, 480)).convert("RGB")
ImageDraw.Draw(picture).text((20, 20), "Grüße, 10 €", font=ImageFont.load_default(40))
for kind, error in {"JPEG": 3, "WEBP": 3, "JPEG2000": 0, "TIFF": 0, "PNG": 0}.items():
    packed = io.BytesIO()
    picture.save(packed, kind)
    again = Image.open(packed).convert("RGB")
    pairs = zip(picture.tobytes(), again.tobytes())
    assert again.size == (640, 480) and sum(abs(a - b) for a, b in pairs) <= error * 921600
packed = io.BytesIO()
picture.save(packed, "JPEG")
head, marker, data = packed.getvalue().partition(b"\\xff\\xda")
twice = head + b"\\xff\\xd8" + marker + data
assert fails(OSError, Image.open(io.BytesIO(twice)).load)
""",
    "shapely==2.2.0": """
from shapely import STRtree, from_wkb, from_wkt
from shapely.geometry import Point
circle = Point(0, 0).buffer(1, quad_segs=64)
assert abs(circle.area - 3.1414) < 1e-3 and from_wkb(circle.wkb).equals(circle)
assert circle.intersection(from_wkt("POLYGON ((0 0, 2 0, 2 2, 0 2, 0 0))")).is_valid
points = [Point(random.random(), random.random()) for _ in range(1000)]
found = STRtree(points).query(circle, predicate="contains")
assert sorted(found) == [i for i, point in enumerate(points) if circle.contains(point)]
assert fails(shapely.GEOSException, from_wkt, "POINT (1")
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
with _decimal.localcontext() as context:
    context.traps[_decimal.FloatOperation] = True
    assert _decimal.Decimal.from_number(0.5) == _decimal.Decimal("0.5")
flags = _decimal.Context().flags
assert fails(ValueError, repr, flags)
""",
    "lxml==6.1.3": """
from lxml import etree, objectify
assert etree.LIBXML_VERSION == (2, 15, 4) and etree.LIBXSLT_VERSION == (1, 1, 45)
with open("a.xml", "w") as file:
    file.write("<a><b>1</b><b>2</b></a>")
assert etree.parse("a.xml").xpath("sum(//b)") == objectify.parse("a.xml").getroot().b[1] + 1
sheet = '<a xsl:version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">%s</a>'
sheet = etree.XSLT(etree.XML(sheet % '<xsl:value-of select="count(//b)"/>'))
assert sheet(etree.parse("a.xml")).getroot().text == "2"
assert fails(etree.XMLSyntaxError, etree.fromstring, "<a>")
""",
    # `native` is from the package's wheel for x86-64.
    "lightgbm==4.7.0": """
import os, pickle, tempfile
import numpy as np, pandas as pd, scipy.sparse as sp
X = np.array([[(i * (j + 3)) % (17 + j) for j in range(8)] for i in range(600)], float)
y = (X[:, 0] + X[:, 1] > X[:, 2] + 4).astype(float)
options = {"objective": "binary", "metric": "auc", "verbose": -1, "seed": 1}
train = lightgbm.Dataset(X[:400], y[:400])
log = {}
model = lightgbm.train(options, train, 20, [train.create_valid(X[400:], y[400:])],
                       callbacks=[lightgbm.record_evaluation(log)])
p = model.predict(X[400:])
native = [0.93001261, 0.94450617, 0.53216772, 0.35053506, 111, 65, 75]
found = [log["valid_0"]["auc"][0], *p[:3], *model.feature_importance()[:3]]
assert np.allclose(found, native, rtol=1e-6), found
path = os.path.join(tempfile.mkdtemp(), "model")
model.save_model(path)
for other in (lightgbm.Booster(model_file=path), pickle.loads(pickle.dumps(model))):
    assert np.array_equal(other.predict(X[400:]), p)
parts = model.predict(X[400:], pred_contrib=True)
assert np.allclose(1 / (1 + np.exp(-parts.sum(1))), p)
sparse = model.predict(sp.csr_matrix(X[400:]), pred_contrib=True)
assert np.allclose(sparse.toarray(), parts)
assert np.array_equal(train.get_label(), y[:400]) and len(model.dump_model()["tree_info"]) == 20
np.savetxt(path, np.c_[y, X], delimiter=",")
assert lightgbm.Dataset(path).construct().num_data() == 600
table = pd.DataFrame({"a": X[:, 0], "b": pd.Categorical(list("xyz") * 200)})
fit = lightgbm.LGBMClassifier(n_estimators=10, verbose=-1).fit(table, X[:, 3] % 3)
assert fit.predict_proba(table).shape == (600, 3) and fit.booster_.feature_name() == ["a", "b"]
own = lightgbm.train(options | {"objective": lambda p, d: (p - d.get_label(), np.ones_like(p))},
                     lightgbm.Dataset(X, y), 40)
assert ((own.predict(X) > 0.5) == y).mean() > 0.9
machines = "127.0.0.1:1,127.0.0.1:2"
for bad in ({"objective": "none such"}, {"tree_learner": "data", "machines": machines}):
    assert fails(lightgbm.basic.LightGBMError, lightgbm.train, options | bad, train, 1)
""",
}


# Modules that are not named after their packages.
MODULES = {"pillow": "PIL", "pyyaml": "yaml"}

# A module that casts its functions, and leaves one by longjmp.
CASTS = r"""
#include <signal.h>
#include <Python.h>
#include <setjmp.h>
typedef struct { PyObject_HEAD } Thing;
static PyObject *name(Thing *self) { return PyUnicode_FromString("thing"); }
static PyObject *size(Thing *self) { return PyLong_FromLong(7); }
static int set_size(Thing *self, PyObject *value) {
    if (value != NULL) return 0;
    PyErr_SetString(PyExc_AttributeError, "no");
    return -1;
}
static int dealloc(Thing *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_Free(self);
    Py_DECREF(type);
    return 1;
}
static PyObject *more(Thing *self, PyObject *a, PyObject *b) {
    return PyBool_FromLong(a == NULL && b == NULL);
}
static PyMethodDef methods[] = {
    {"name", (PyCFunction)(void (*)(void))name, METH_NOARGS, NULL},
    {"more", (PyCFunction)(void (*)(void))more, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef getset[] = {
    {"size", (getter)(void (*)(void))size, (setter)(void (*)(void))set_size, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyObject *new_thing(PyTypeObject *type) { return type->tp_alloc(type, 0); }
static PyType_Slot slots[] = {
    {Py_tp_methods, methods},
    {Py_tp_getset, getset},
    {Py_tp_dealloc, dealloc},
    {Py_tp_new, new_thing},
    {Py_tp_repr, name},
    {0, NULL},
};
static PyType_Spec spec = {"casts.Thing", sizeof(Thing), 0, Py_TPFLAGS_DEFAULT, slots};
static int exec(PyObject *module) {
    PyObject *type = PyType_FromSpec(&spec);
    return type == NULL ? -1 : PyModule_AddType(module, (PyTypeObject *)type);
}
static jmp_buf place;
__attribute__((noinline)) static void jump(int n) { if (n == 0) longjmp(place, 5); jump(n - 1); }
static PyObject *leave(PyObject *module, PyObject *deep) {
    int came = setjmp(place);
    if (came == 0) jump(PyLong_AsLong(deep));
    return PyLong_FromLong(came);
}
static PyMethodDef functions[] = {{"leave", leave, METH_O, NULL}, {NULL, NULL, 0, NULL}};
static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, exec}, {0, NULL}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "casts", NULL, 0, functions, module_slots};
PyMODINIT_FUNC INITIALIZER(void) { return PyModuleDef_Init(&module); }
"""

# Two modules that have a C++ type in common, and a lock each.
KINDS = r"""
#include <Python.h>
#include <mutex>
#include <typeinfo>
struct Base { virtual ~Base() = default; };
struct Part final : Base {};
static std::mutex lock;
static PyObject *make(PyObject *, PyObject *) {
    std::lock_guard<std::mutex> held(lock);
    return PyCapsule_New(new Part, NULL, NULL);
}
static PyObject *is_part(PyObject *, PyObject *capsule) {
    auto *base = static_cast<Base *>(PyCapsule_GetPointer(capsule, NULL));
    try {
        dynamic_cast<Part &>(*base);
    } catch (const std::bad_cast &) {
        Py_RETURN_FALSE;
    }
    return PyBool_FromLong(typeid(*base) == typeid(Part) && lock.try_lock() && !lock.try_lock());
}
static PyMethodDef functions[] = {
    {"make", make, METH_NOARGS, NULL}, {"is_part", is_part, METH_O, NULL}, {NULL, NULL, 0, NULL},
};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "kinds", NULL, 0, functions};
PyMODINIT_FUNC INITIALIZER(void) { return PyModuleDef_Init(&module); }
"""
KINDS_PROGRAM = "import kind_a, kind_b\nassert kind_b.is_part(kind_a.make())"

# Threads, files, random numbers and standard output of C++.
LIBRARY = r"""
#include <csignal>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>
#include <Python.h>
static PyObject *threads(PyObject *, PyObject *) {
    std::mutex lock;
    std::condition_variable more;
    std::vector<std::thread> all;
    int sum = 0;
    for (int i = 1; i <= 4; i++) {
        all.emplace_back([&](int n) {
            std::lock_guard<std::mutex> held(lock);
            sum += n;
            more.notify_one();
        }, i);
    }
    std::unique_lock<std::mutex> held(lock);
    more.wait(held, [&] { return sum == 10; });
    for (auto &one : all) one.join();
    try {
        more.wait(held, [] { return false; });
    } catch (const std::system_error &error) {
        return PyLong_FromLong(error.code() == std::errc::resource_deadlock_would_occur ? sum : -1);
    }
    return PyLong_FromLong(-2);
}
static PyObject *files(PyObject *, PyObject *path) {
    namespace fs = std::filesystem;
    fs::path folder = PyUnicode_AsUTF8(path), copy = folder / "b" / "copy";
    std::ofstream(folder / "a") << "some text\n" << 7;
    fs::create_directories(folder / "b");
    fs::copy_file(folder / "a", copy);
    std::string line;
    int number = 0, entries = 0;
    std::ifstream in(copy);
    std::getline(in, line);
    in >> number;
    for (auto &entry : fs::recursive_directory_iterator(folder)) entries += entry.exists();
    bool removed = std::remove(copy.c_str()) == 0 && fs::remove(folder / "b");
    return Py_BuildValue("siii", line.c_str(), number, entries, removed);
}
static PyObject *random_number(PyObject *, PyObject *) {
    return PyLong_FromUnsignedLong(std::random_device()());
}
static PyObject *print(PyObject *, PyObject *) {
    printf("%d %s", 1, "two");
    putchar(' ');
    fprintf(stdout, "three");
    puts(" four");
    std::cout << "five " << 6;
    Py_RETURN_NONE;
}
static PyObject *ids(PyObject *, PyObject *) {
    std::thread::id first, second, outer = std::this_thread::get_id();
    std::thread one([&] { first = std::this_thread::get_id(); });
    std::thread two([&] { second = std::this_thread::get_id(); });
    bool same = one.get_id() == first && two.get_id() == second;
    one.swap(two);
    same = same && one.get_id() == second && outer == std::this_thread::get_id();
    one.join();
    two.join();
    bool other = first != second && first != outer && second != outer;
    return PyBool_FromLong(same && other && one.get_id() == std::thread::id());
}
static PyObject *sleep(PyObject *, PyObject *) {
    using namespace std::chrono;
    std::mutex lock;
    std::unique_lock<std::mutex> held(lock);
    std::condition_variable never;
    auto start = steady_clock::now();
    bool late = never.wait_for(held, milliseconds(20)) == std::cv_status::timeout;
    late = late && never.wait_until(held, start + milliseconds(40)) == std::cv_status::timeout;
    return PyBool_FromLong(late && steady_clock::now() - start >= milliseconds(40));
}
static PyMethodDef functions[] = {
    {"threads", threads, METH_NOARGS, NULL},
    {"files", files, METH_O, NULL},
    {"random_number", random_number, METH_NOARGS, NULL},
    {"print", print, METH_NOARGS, NULL},
    {"ids", ids, METH_NOARGS, NULL},
    {"sleep", sleep, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "library", NULL, 0, functions};
PyMODINIT_FUNC INITIALIZER(void) { return PyModuleDef_Init(&module); }
"""
LIBRARY_PROGRAM = """
import library, tempfile
assert library.threads() == 10
assert library.files(tempfile.mkdtemp()) == ("some text", 7, 3, True)
assert library.random_number() != library.random_number()
assert library.ids() and library.sleep()
library.print()
"""

CASTS_PROGRAM = """
import casts
thing = casts.Thing()
assert thing.name() == repr(thing) == "thing" and thing.size == 7 and thing.more()
thing.size = 8
try: del thing.size
except AttributeError: del thing
assert [casts.leave(n) for n in range(3)] == [5, 5, 5]
"""


def belljar(*arguments, cwd):
    done = subprocess.run(
        [BELLJAR, *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("package", PROGRAMS)
def test_a_package_works_in_the_sandbox(package, tmp_path):
    name = package.split("==")[0]
    module = MODULES.get(name, name)
    made = belljar("package", "build", "--json", "--out", "wheels", package, cwd=tmp_path)
    wheel = "wheels/" + Path(json.loads(made)["wheel"]).name
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


def recipe_of(source, modules):
    """Returns a recipe that compiles one source for each of the modules."""
    entries = [
        f'[[module]]\nname = "{module}"\nsources = []\nown = ["{source}"]\n'
        f'flags = ["-DINITIALIZER=PyInit_{module}"]\n'
        for module in modules
    ]
    return "".join(['version = "1"\n', *entries])


@pytest.mark.parametrize(
    ("source", "text", "modules", "program", "printed"),
    [
        ("casts.c", CASTS, ["casts"], CASTS_PROGRAM, ""),
        ("kinds.cpp", KINDS, ["kind_a", "kind_b"], KINDS_PROGRAM, ""),
        ("library.cpp", LIBRARY, ["library"], LIBRARY_PROGRAM, "1 two three four\nfive 6"),
    ],
)
def test_modules_of_a_recipe_work(source, text, modules, program, printed, tmp_path):
    (tmp_path / source).write_text(text)
    (tmp_path / "recipe.toml").write_text(recipe_of(source, modules))
    belljar("package", "build", "--recipe", "recipe.toml", "own==1", cwd=tmp_path)
    wheel = next(tmp_path.glob("*.whl")).name
    name = "native-" + source.split(".")[0]
    image = f'name = "{name}"\nbase = "core"\nwheels = ["{wheel}"]\n'
    (tmp_path / "image.toml").write_text(image)
    belljar("image", "build", "image.toml", cwd=tmp_path)
    try:
        assert belljar("run", "--image", name, "-c", program, cwd=tmp_path) == printed
    finally:
        belljar("image", "remove", name, cwd=tmp_path)
