"""Compiles the modules of packages in a booted interpreter, without running them.

The host sends the source of one module after the other, as the path and the text, and gets the
contents of its file in `__pycache__`. The file is never compared with the source, which cannot
change: packages are read-only.
"""

import marshal
import warnings
from importlib.util import MAGIC_NUMBER, source_hash

import _host

UNCHECKED = b"\1\0\0\0"

try:
    # The limits of the stack, for deeply nested source.
    _host.call(b"k")
except Exception:  # noqa: S110
    pass
# The import of compiled code does not warn either.
warnings.simplefilter("ignore")
while module := _host.call(b"u"):
    path, _, source = module.partition(b"\0")
    try:
        code = compile(source, path.decode(), "exec", dont_inherit=True)
        head = MAGIC_NUMBER + UNCHECKED + source_hash(source)
        _host.call(b"c" + head + marshal.dumps(code))
    except Exception:  # noqa: S112
        continue  # such as a template: its import raises the error, too
