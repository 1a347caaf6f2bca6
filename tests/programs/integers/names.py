# numpy's names for its default integer, by every way in which the user's code reads them.
import numpy
import numpy as np
from numpy import int_, long, uint, ulong

print(np.int_, np.uint, np.long, np.ulong)
print(int_ is np.int64, uint is np.uint64, long is np.int64, ulong is np.uint64)
print(getattr(np, "int_"), numpy.__getattr__("int_"))
print([name in dir(np) for name in ("int_", "uint", "long", "ulong", "intp", "array")])
print([np.dtype(name).itemsize for name in ("int", "int_", "long", "l", "uint", "ulong", "L")])
print([np.dtype(name).itemsize for name in ("intp", "p", "n", "int32", "i4", "i", "=i4", "u4")])
print(np.dtype("int,l").descr, np.dtype([("a", "uint"), ("b", int)]).descr)
namespace = {}
exec("from numpy import *", namespace)
print(namespace["int_"])
for name in ("nothing", "int0"):
    try:
        getattr(np, name)
    except AttributeError as error:
        print(str(error)[:40])


class Text(str):
    pass


print(np.dtype(Text("int")), np.dtype(b"int"), np.iinfo(np.int_).max, np.int_.__name__)
print(np.array([1]).dtype.type is np.int_, np.intp is np.int32)

# with image: data
# expect stdout: "<class 'numpy.int64'> <class 'numpy.uint64'> <class 'numpy.int64'> <class 'numpy.uint64'>\nTrue True True True\n<class 'numpy.int64'> <class 'numpy.int64'>\n[True, True, True, True, True, True]\n[8, 8, 8, 8, 8, 8, 8]\n[4, 4, 4, 4, 4, 4, 4, 4]\n[('f0', '<i8'), ('f1', '<i8')] [('a', '<u8'), ('b', '<i8')]\n<class 'numpy.int64'>\nmodule 'numpy' has no attribute 'nothing\nmodule 'numpy' has no attribute 'int0'\nint64 int64 9223372036854775807 int64\nTrue True\n"
