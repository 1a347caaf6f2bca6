"""Prepares what packages are compiled with, once for each version of Python in the sandbox.

* The compiler: `ziglang` from the package index, which has clang, wasm-ld and a C library.
* CPython's headers, with a `pyconfig.h` for the guest.
* The runtime that each extension is linked with: the functions of the C library, of C++ and of
  CPython's API that the artifact does not have.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import compiler
import wasm

HERE = Path(__file__).resolve().parent
ZIG = "0.17.1"

# Functions that work on the heap: an extension never gets a heap of its own.
HEAP = {"malloc", "calloc", "realloc", "free", "aligned_alloc", "posix_memalign", "memalign"}
HEAP |= {"valloc", "reallocarray", "strndup", "wcsdup", "malloc_usable_size"}
# Data that only the artifact may have.
SHARED_DATA = {"errno", "environ", "__environ", "stdin", "stdout", "stderr", "optarg", "optind"}

# Sources of C++'s runtime, compiled with exceptions: zig's own are compiled without.
CXXABI = ["cxa_exception", "cxa_personality", "cxa_exception_storage", "cxa_handlers"]
CXXABI += ["cxa_default_handlers", "cxa_aux_runtime", "cxa_vector", "cxa_virtual", "cxa_guard"]
CXXABI += ["stdlib_exception", "stdlib_stdexcept", "stdlib_typeinfo", "stdlib_new_delete"]
CXXABI += ["abort_message", "fallback_malloc", "private_typeinfo", "cxa_demangle"]
DUMMY = "int main(void) { return 0; }\n"


class BuildError(Exception):
    """A step failed; the message says what to do."""


class UsageError(BuildError):
    """The command was given something invalid."""


QUIET = False


def say(text):
    if not QUIET:
        print(f"belljar: {text}", file=sys.stderr, flush=True)


def output_of(command, **options):
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, **options
    )
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()[-30:]
        last = "\n".join(line[:400] for line in lines)
        raise BuildError(f"{Path(str(command[0])).name} failed:\n{last}")
    return done.stdout + done.stderr


class Toolchain:
    """A folder in the cache with the compiler and all that belongs to one artifact."""

    def __init__(self, cache, artifact, belljar, headers):
        self.artifact, self.belljar = Path(artifact), belljar
        self.headers = headers
        sources = [*sorted((HERE / "c").glob("*.c")), HERE / "toolchain.py", HERE / "compiler.py"]
        state = hashlib.sha256(ZIG.encode())
        for path in sources:
            state.update(path.read_bytes())
        state.update(str(self.artifact.resolve().parent.name).encode())
        self.compiler = Path(cache, f"zig-{ZIG}")
        self.folder = Path(cache, f"runtime-{state.hexdigest()[:16]}")
        self.environment = dict(os.environ)
        zig_cache = str(Path(cache, "zig-cache"))
        self.environment |= {"ZIG_GLOBAL_CACHE_DIR": zig_cache, "ZIG_LOCAL_CACHE_DIR": zig_cache}

    @property
    def python(self):
        return self.compiler / "bin/python"

    @property
    def tools(self):
        return self.folder / "tools.json"

    def prepare(self):
        self.get_compiler()
        if self.tools.is_file():
            return
        say("preparing headers and the C and C++ libraries (once, about a minute)")
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.folder.parent) as made:
            made = Path(made, "runtime")
            made.mkdir()
            self.write_headers(made / "include")
            names = wasm.function_names(self.artifact.read_bytes())
            self.build_runtime(made, names)
            self.write_tools(made)
            put(made, self.folder)

    def names(self):
        """Returns the functions of the artifact that an extension may import."""
        return set((self.folder / "artifact.txt").read_text().split())

    def get_compiler(self):
        if self.compiler.is_dir():
            return
        say(f"getting the compiler (ziglang {ZIG}, about 100 MB)")
        self.compiler.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.compiler.parent) as made:
            made = Path(made, "compiler")
            output_of([sys.executable, "-m", "venv", made])
            pip = [made / "bin/python", "-m", "pip", "install", "--quiet", "--no-deps"]
            pip += ["--disable-pip-version-check", "--only-binary=:all:", "--require-hashes"]
            output_of([*pip, "-r", HERE / "compiler.txt"], cwd=made)
            put(made, self.compiler)

    def zig(self):
        found = output_of(
            [self.python, "-c", "import ziglang; print(ziglang.__path__[0])"], cwd=self.compiler
        )
        return Path(found.strip(), "zig")

    def write_headers(self, to):
        source = find_headers(self.headers)
        shutil.copytree(source, to)
        program = "import json, sysconfig; print(json.dumps(sysconfig.get_config_vars()))"
        asked = subprocess.run(
            [self.belljar, "run", "--quiet", "-c", program],
            capture_output=True,
            text=True,
            check=False,
        )
        if asked.returncode != 0:
            raise BuildError(
                f"the sandbox does not tell its configuration:\n{asked.stderr[-1000:]}"
            )
        variables = json.loads(asked.stdout)
        template = next(
            path
            for path in [*source.parent.glob("*/python3.15/pyconfig.h"), source / "pyconfig.h"]
            if "SIZEOF_LONG" in path.read_text()
        )
        (to / "pyconfig.h").write_text(configuration(template.read_text(), variables))

    def build_runtime(self, made, names):
        zig = self.zig()
        work = made / "work"
        work.mkdir()
        (work / "dummy.c").write_text(DUMMY)
        command = [zig, "build-exe", "dummy.c", "-target", "wasm32-wasi", "-OReleaseFast"]
        command += [f"-mcpu={compiler.CPU}", "-lc", "-lc++", "--verbose-link"]
        shown = output_of([*command, "-femit-bin=dummy.wasm"], cwd=work, env=self.environment)
        found = {Path(p).name: Path(p) for p in re.findall(r"\S+\.a\b", shown)}
        kept, libc = [], set()
        for library in ("libc.a", "libzigc.a", "libcompiler_rt.a"):
            objects, defined = select(found[library], names, whole=library == "libc.a")
            libc |= defined
            for name, data in objects:
                path = work / f"{len(kept)}-{name}"
                path.write_bytes(data)
                kept.append(path)
        own = [*(HERE / "c").glob("*.c")]
        mine = []
        for source in sorted(own):
            path = work / f"own-{source.stem}.o"
            self.compile("cc", source, path, made, ["-Wno-everything"])
            data = path.read_bytes()
            path.write_bytes(wasm.symbols(data, lambda n: hidden(n) if n in names else n)[1])
            mine.append(path)
        cxx = self.build_cxx(zig.parent / "lib", work, made)
        library = made / "lib"
        library.mkdir()
        for name, objects in (("python", mine), ("c", kept), ("c++abi", cxx)):
            archive = library / f"lib{name}.a"
            output_of([zig, "ar", "rcs", archive, *objects], env=self.environment)
        shutil.copyfile(found["libc++.a"], library / "libc++.a")
        shutil.rmtree(work)
        here = {n for n in names if n.startswith(("Py", "_Py")) or n in libc}
        (made / "artifact.txt").write_text("\n".join(sorted(here)) + "\n")

    def build_cxx(self, lib, work, made):
        flags = ["-I", lib / "libcxxabi/include", "-I", lib / "libcxx/include"]
        flags += ["-I", lib / "libcxx/src", "-I", lib / "libcxxabi/src"]
        flags += ["-D_LIBCXXABI_BUILDING_LIBRARY", "-DLIBCXX_BUILDING_LIBCXXABI"]
        flags += ["-D_LIBCXXABI_HAS_NO_THREADS", "-D_LIBCPP_BUILDING_LIBRARY"]
        flags += ["-std=c++23", "-fexceptions", "-Wno-everything"]
        objects = []
        for name in CXXABI:
            path = work / f"cxx-{name}.o"
            self.compile("c++", lib / f"libcxxabi/src/{name}.cpp", path, made, flags)
            objects.append(path)
        path = work / "cxx-unwind.o"
        source = lib / "libunwind/src/Unwind-wasm.c"
        flags = ["-I", lib / "libunwind/include", "-I", lib / "libunwind/src"]
        flags += [
            "-fwasm-exceptions",
            "-fdeclspec",
            "-Wno-everything",
            "-D_LIBUNWIND_HAS_NO_THREADS",
        ]
        self.compile("cc", source, path, made, flags)
        return [*objects, path]

    def compile(self, language, source, out, made, flags):
        tools = made / "tools.json"
        if not tools.exists():
            self.write_tools(made)
        flags = [*flags, "-ffunction-sections", "-fdata-sections"]
        output_of(
            [sys.executable, HERE / "compiler.py", language, "-c", source, "-o", out, *flags],
            env=self.environment | {"BELLJAR_TOOLS": str(tools)},
        )

    def write_tools(self, made):
        """Writes what compiler.py reads; paths are those after the folder has its last name."""
        at = made if not (made / "artifact.txt").exists() else self.folder
        runtime = [at / f"lib/lib{name}.a" for name in ("python", "c", "c++", "c++abi")]
        (made / "tools.json").write_text(
            json.dumps(
                {
                    "zig": str(self.zig()),
                    "include": [str(at / "include"), str(at / "include/internal")],
                    "libraries": [],
                    "runtime": [str(path) for path in runtime],
                }
            )
        )


def put(made, folder):
    """Gives a finished folder its name, unless another build was faster."""
    try:
        made.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise


def hidden(name):
    return f"__private_{name}"


def select(library, names, whole):
    """Returns the members of an archive that an extension may have of its own, and the names of
    all functions that the archive defines.

    With `whole` a member that defines a function of the artifact is left out, since it may have
    state. Otherwise only those names are hidden.
    """
    kept, defined = [], set()
    for index, (name, data) in enumerate(wasm.members(library.read_bytes())):
        symbols, _ = wasm.symbols(data)
        here = [
            (kind, symbol)
            for kind, flags, symbol in symbols
            if symbol and not flags & (wasm.UNDEFINED | wasm.LOCAL)
        ]
        functions = {symbol for kind, symbol in here if kind == wasm.FUNCTION}
        data_names = {symbol for kind, symbol in here if kind == wasm.DATA}
        defined |= functions
        if whole:
            if functions & names or functions & HEAP or data_names & SHARED_DATA:
                continue
        else:
            hide = (names | HEAP) & functions
            _, data = wasm.symbols(data, lambda n, hide=hide: hidden(n) if n in hide else n)
        kept.append((f"{index}-{Path(name).name.removesuffix('.obj').removesuffix('.o')}.o", data))
    return kept, defined


def find_headers(given):
    """Returns the folder of CPython 3.15's headers."""
    asked = [Path(given)] if given else []
    if not asked:
        if sys.version_info[:2] == (3, 15):
            asked.append(Path(sysconfig.get_path("include")))
        other = shutil.which("python3.15")
        if other:
            program = "import sysconfig; print(sysconfig.get_path('include'))"
            asked.append(Path(output_of([other, "-c", program]).strip()))
    for folder in asked:
        for place in (folder, folder / "include/python3.15", folder / "usr/include/python3.15"):
            if (place / "Python.h").is_file() and "3.15" in (place / "patchlevel.h").read_text():
                return place
    where = f"{given} does not contain them" if given else "there is no python3.15 with headers"
    raise BuildError(
        f"packages are compiled with CPython 3.15's headers, and {where}; install Python 3.15 "
        "(on Debian: libpython3.15-dev), or give a folder with --headers"
    )


def configuration(template, variables):
    """Returns pyconfig.h: the names of `template` with the guest's values."""
    names = re.findall(r"^\s*(?:#\s*define|/\*\s*#\s*undef|#\s*undef)\s+(\w+)", template, re.M)
    lines = ["#ifndef Py_PYCONFIG_H", "#define Py_PYCONFIG_H"]
    for name in dict.fromkeys(names):
        value = variables.get(name)
        if name == "Py_PYCONFIG_H" or value in (0, None, ""):
            continue
        lines.append(f"#define {name} {value}")
    return "\n".join([*lines, "#endif", ""])


def write_script(path, command):
    quoted = " ".join("'" + str(part).replace("'", "'\\''") + "'" for part in command)
    path.write_text(f'#!/bin/sh\nexec {quoted} "$@"\n')
    path.chmod(0o755)


def run_logged(command, folder, environment, log, explain=lambda text: None):
    """Runs a step of the build. Its output is shown only if it fails."""
    with log.open("ab") as out:
        done = subprocess.run(
            [str(part) for part in command],
            cwd=folder,
            env=environment,
            check=False,
            stdout=out,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
    if done.returncode != 0:
        advice = explain(log.read_text(errors="replace"))
        raise BuildError(advice or f"the package's build failed:\n{report(log)}")


def report(log):
    """Returns the errors in a log with some lines around them, or its end."""
    lines = [line[:300] for line in log.read_text(errors="replace").splitlines()]
    errors = [i for i, line in enumerate(lines) if re.search(r"\berror\b", line, re.I)]
    if not errors:
        return "\n".join(lines[-25:])
    shown = sorted({j for i in errors[:6] for j in range(max(0, i - 1), min(len(lines), i + 5))})
    return "\n".join(lines[i] for i in shown[:40])
