"""Makes a package's build believe that it builds for Python in the sandbox.

It is on the path of the build's Python alone. The interpreter's own version stays, since build
tools run on it.
"""

import os
import platform
import sys
import sysconfig

SUFFIX = ".cpython-315-belljar_wasm32.wasm"
TOOLS = os.environ["BELLJAR_TOOLS_BIN"]

variables = sysconfig.get_config_vars()
variables.update(
    CC=os.path.join(TOOLS, "cc"),
    CXX=os.path.join(TOOLS, "c++"),
    LDSHARED=os.path.join(TOOLS, "ld"),
    LDCXXSHARED=os.path.join(TOOLS, "ld"),
    BLDSHARED=os.path.join(TOOLS, "ld"),
    AR=os.path.join(TOOLS, "ar"),
    ARFLAGS="rcs",
    RANLIB=os.path.join(TOOLS, "ranlib"),
    CFLAGS="-O2",
    OPT="-O2",
    CCSHARED="",
    LDFLAGS="",
    LIBS="",
    EXT_SUFFIX=SUFFIX,
    SHLIB_SUFFIX=".wasm",
    # Older tools accept only the tags of the Python that runs them.
    SOABI=f"cpython-{sys.version_info[0]}{sys.version_info[1]}-belljar_wasm32",
    INCLUDEPY=os.environ["BELLJAR_INCLUDE"],
    CONFINCLUDEPY=os.environ["BELLJAR_INCLUDE"],
    SIZEOF_VOID_P=4,
    SIZEOF_SIZE_T=4,
    SIZEOF_LONG=4,
    Py_GIL_DISABLED=0,
    Py_ENABLE_SHARED=0,
    LIBDIR="",
    MULTIARCH="wasm32-wasi",
)
sysconfig.get_platform = lambda: "belljar-wasm32"
platform.machine = lambda: "wasm32"
