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
import signal
import subprocess
import sys
import sysconfig
import tempfile
from contextlib import suppress
from fcntl import LOCK_EX, flock
from pathlib import Path

import compiler
import wasm

HERE = Path(__file__).resolve().parent


def of_engine(name, path):
    """Returns a file of the engine, which the command writes beside these programs."""
    beside = HERE / name
    return beside if beside.is_file() else HERE.parents[2] / path


# The functions of libraries that the engine's linker finds in the artifact, and the program that
# tells it where objects are.
FUNCTIONS = of_engine("names.txt", "crates/passes/src/link/names.txt")
ADDRESSES = of_engine("addresses.py", "python-wasm/linking/addresses.py")
ZIG = "0.17.1"

# Functions that work on the heap: an extension never gets a heap of its own.
HEAP = {"malloc", "calloc", "realloc", "free", "aligned_alloc", "posix_memalign", "memalign"}
HEAP |= {"valloc", "reallocarray", "strndup", "wcsdup", "malloc_usable_size"}
# Data that only the artifact may have.
SHARED_DATA = {"errno", "environ", "__environ", "stdin", "stdout", "stderr", "optarg", "optind"}

# Functions of c/stdio.c that an extension has of its own although the artifact has them.
OF_STDOUT = {"printf", "putchar", "puts"}

# Sources of C++'s runtime, compiled with exceptions: zig's own are compiled without.
CXXABI = ["cxa_exception", "cxa_personality", "cxa_exception_storage", "cxa_handlers"]
CXXABI += ["cxa_default_handlers", "cxa_aux_runtime", "cxa_vector", "cxa_virtual", "cxa_guard"]
CXXABI += ["stdlib_exception", "stdlib_stdexcept", "stdlib_typeinfo", "stdlib_new_delete"]
CXXABI += ["abort_message", "fallback_malloc", "private_typeinfo", "cxa_demangle"]
# Sources of C++'s library that the compiler leaves out for WASI.
LIBCXX = ["ios.instantiations", "filesystem/path", "filesystem/operations"]
LIBCXX += ["filesystem/directory_iterator", "filesystem/directory_entry"]
LIBCXX += ["filesystem/filesystem_clock", "filesystem/filesystem_error"]
# Asks the sandbox's Python what the build must know.
GUEST = """import builtins, json, sys, sysconfig
names = [n for n, v in vars(builtins).items()
         if isinstance(v, type) and issubclass(v, BaseException)]
print(json.dumps({"version": sys.hexversion, "variables": sysconfig.get_config_vars(),
                  "exceptions": names}))
"""
DUMMY = "int main(void) { return 0; }\n"


class BuildError(Exception):
    """A step failed; the message says what to do."""


class UsageError(BuildError):
    """The command was given something invalid."""


QUIET = False


def say(text):
    if not QUIET:
        print(f"belljar: {text}", file=sys.stderr, flush=True)


def run(command, **options):
    """Runs a program in a group of its own, which an interrupt ends as a whole."""
    command = [str(part) for part in command]
    options = {"stdin": subprocess.DEVNULL, "start_new_session": True, **options}
    with subprocess.Popen(command, **options) as child:
        try:
            out, err = child.communicate()
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, child.returncode, out, err)


def output_of(command, **options):
    done = run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()[-30:]
        last = "\n".join(line[:400] for line in lines)
        raise BuildError(f"{Path(str(command[0])).name} failed:\n{last}")
    return done.stdout + done.stderr


class Toolchain:
    """A folder in the cache with the compiler and all that belongs to one artifact."""

    def __init__(self, cache, artifact, belljar, headers):
        self.artifact, self.belljar = Path(artifact), belljar
        self.headers = find_headers(headers)
        self.cache = Path(cache)
        sources = [*sorted((HERE / "c").iterdir()), FUNCTIONS, ADDRESSES]
        sources += [HERE / f"{name}.py" for name in ("toolchain", "compiler", "wasm")]
        sources += sorted(self.headers.rglob("*.h"))
        state = hashlib.sha256(ZIG.encode())
        for path in sources:
            state.update(path.read_bytes())
        state.update(str(self.artifact.resolve().parent.name).encode())
        self.compiler = Path(cache, f"zig-{ZIG}-python{sys.version_info[0]}.{sys.version_info[1]}")
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
        if self.compiler.is_dir() and self.tools.is_file():
            return
        self.cache.mkdir(parents=True, exist_ok=True)
        with (self.cache / "lock").open("w") as lock:
            flock(lock, LOCK_EX)
            # Left by a build that was killed.
            for unfinished in self.cache.glob("making-*"):
                shutil.rmtree(unfinished, ignore_errors=True)
            self.get_compiler()
            self.make_runtime()

    def make_runtime(self):
        if self.tools.is_file():
            return
        say("preparing headers and the C and C++ libraries (once, about a minute)")
        with tempfile.TemporaryDirectory(dir=self.cache, prefix="making-") as made:
            made = Path(made, "runtime")
            made.mkdir()
            guest = self.ask_guest()
            check_version(self.headers, guest["version"])
            self.write_headers(made / "include", guest["variables"])
            names = wasm.function_names(self.artifact.read_bytes())
            self.build_runtime(made, names, guest["exceptions"])
            self.write_tools(made)
            made.rename(self.folder)

    def names(self):
        """Returns the functions and the data of the artifact that an extension may use."""
        return set((self.folder / "artifact.txt").read_text().split())

    def get_compiler(self):
        if self.compiler.is_dir():
            return
        say(f"getting the compiler (ziglang {ZIG}, about 100 MB)")
        with tempfile.TemporaryDirectory(dir=self.cache, prefix="making-") as made:
            made = Path(made, "compiler")
            output_of([sys.executable, "-m", "venv", made])
            pip = [made / "bin/python", "-m", "pip", "install", "--quiet", "--no-deps"]
            pip += ["--disable-pip-version-check", "--only-binary=:all:", "--require-hashes"]
            output_of([*pip, "-r", HERE / "compiler.txt"], cwd=made)
            made.rename(self.compiler)

    def zig(self):
        found = output_of(
            [self.python, "-c", "import ziglang; print(ziglang.__path__[0])"], cwd=self.compiler
        )
        return Path(found.strip(), "zig")

    def ask_guest(self):
        command = [self.belljar, "run", "--quiet", "-c", GUEST]
        asked = run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if asked.returncode != 0:
            raise BuildError(
                f"the sandbox does not tell its configuration:\n{asked.stderr[-1000:]}"
            )
        return json.loads(asked.stdout)

    def write_headers(self, to, variables):
        source = self.headers
        shutil.copytree(source, to)
        template = next(
            path
            for path in [*source.parent.glob("*/python3.15/pyconfig.h"), source / "pyconfig.h"]
            if "SIZEOF_LONG" in path.read_text()
        )
        (to / "pyconfig.h").write_text(configuration(template.read_text(), variables))
        for header in (HERE / "c").iterdir():
            if header.suffix != ".c":
                shutil.copyfile(header, to / header.name)

    def build_runtime(self, made, names, exceptions):
        zig = self.zig()
        work = made / "work"
        work.mkdir()
        (work / "dummy.c").write_text(DUMMY)
        command = [zig, "build-exe", "dummy.c", "-target", "wasm32-wasi", "-OReleaseFast"]
        command += [f"-mcpu={compiler.CPU}", "-lc", "-lc++", "--verbose-link"]
        shown = output_of([*command, "-femit-bin=dummy.wasm"], cwd=work, env=self.environment)
        found = {Path(p).name: Path(p) for p in re.findall(r"\S+\.a\b", shown)}
        kept, available = [], offered(names)
        for library in ("libc.a", "libzigc.a", "libcompiler_rt.a"):
            for name, data in select(found[library], names, available, library == "libc.a"):
                path = work / f"{len(kept)}-{name}"
                path.write_bytes(data)
                kept.append(path)
        here = available - OF_STDOUT
        own = [*(HERE / "c").glob("*.c")]
        mine = []
        for source in sorted(own):
            path = work / f"own-{source.stem}.o"
            self.compile("cc", source, path, made, ["-Wno-everything"])
            data = path.read_bytes()
            path.write_bytes(wasm.symbols(data, lambda n: hidden(n) if n in here else n)[1])
            mine.append(path)
        cxx = self.build_cxx(zig.parent / "lib", work, made)
        library = made / "lib"
        library.mkdir()
        for name, objects in (("python", mine), ("c", kept), ("c++abi", cxx)):
            archive = library / f"lib{name}.a"
            output_of([zig, "ar", "rcs", archive, *objects], env=self.environment)
        shutil.copyfile(found["libc++.a"], library / "libc++.a")
        shutil.copyfile(work / "own-random.o", library / "random.o")
        shutil.rmtree(work)
        here |= objects_of_engine(exceptions)
        (made / "artifact.txt").write_text("\n".join(sorted(here)) + "\n")

    def build_cxx(self, lib, work, made):
        flags = ["-I", lib / "libcxxabi/include", "-I", lib / "libcxx/include"]
        flags += ["-I", lib / "libcxx/src", "-I", lib / "libcxxabi/src"]
        flags += ["-D_LIBCXXABI_BUILDING_LIBRARY", "-DLIBCXX_BUILDING_LIBCXXABI"]
        flags += ["-D_LIBCXXABI_HAS_NO_THREADS", "-D_LIBCPP_BUILDING_LIBRARY"]
        flags += ["-std=c++23", "-fexceptions", "-Wno-everything"]
        # It would copy files by a function that WASI has not.
        files = [*flags, "-U_LIBCPP_HAS_MUSL_LIBC", "-D_LIBCPP_HAS_MUSL_LIBC=0"]
        objects = []
        sources = [(lib / f"libcxxabi/src/{name}.cpp", flags) for name in CXXABI]
        sources += [(lib / f"libcxx/src/{name}.cpp", files) for name in LIBCXX]
        for source, its in sources:
            path = work / f"cxx-{source.stem}.o"
            self.compile("c++", source, path, made, its)
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
                    "failures": os.devnull,
                    "runtime": [str(path) for path in runtime],
                    "random": str(at / "lib/random.o"),
                }
            )
        )


def offered(names):
    """Returns which functions of the artifact the engine's linker finds."""
    listed = set(FUNCTIONS.read_text().split())
    of_python = {n for n in names if re.fullmatch(r"_?Py\w+", n, re.ASCII)}
    return {n for n in of_python if not n.startswith("PyInit_")} | names & listed


def objects_of_engine(exceptions):
    """Returns the data that the engine's linker finds."""
    named = set(re.findall(r'"(_?Py\w+)"', ADDRESSES.read_text()))
    return named | {f"PyExc_{name}" for name in exceptions} | {"errno"}


def hidden(name):
    return f"__private_{name}"


def select(library, names, available, whole):
    """Returns the members of an archive that an extension may have of its own.

    With `whole` a member that defines a function of the artifact is left out, since it may have
    state. Otherwise only the names that the engine's linker finds are hidden.
    """
    kept = []
    for index, (name, data) in enumerate(wasm.members(library.read_bytes())):
        symbols, _ = wasm.symbols(data)
        here = [
            (kind, symbol)
            for kind, flags, symbol, _ in symbols
            if symbol and not flags & (wasm.UNDEFINED | wasm.LOCAL)
        ]
        functions = {symbol for kind, symbol in here if kind == wasm.FUNCTION}
        data_names = {symbol for kind, symbol in here if kind == wasm.DATA}
        if whole:
            if functions & names or functions & HEAP or data_names & SHARED_DATA:
                continue
        else:
            hide = (available | HEAP) & functions
            _, data = wasm.symbols(data, lambda n, hide=hide: hidden(n) if n in hide else n)
        kept.append((f"{index}-{Path(name).name.removesuffix('.obj').removesuffix('.o')}.o", data))
    return kept


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
            if (place / "Python.h").is_file() and (place / "patchlevel.h").is_file():
                return place
    where = f"{given} does not contain them" if given else "there is no python3.15 with headers"
    raise BuildError(
        f"packages are compiled with CPython 3.15's headers, and {where}; install Python 3.15 "
        "(on Debian: libpython3.15-dev), or give a folder with --headers"
    )


def check_version(headers, guest):
    """Refuses headers of another minor version or of an unfinished one."""
    text = (headers / "patchlevel.h").read_text()
    found = re.search(r'^#define\s+PY_VERSION\s+"(\d+)\.(\d+)\.\d+(\S*)"', text, re.M)
    # PY_VERSION_HEX: a byte each of major, minor and micro version, and the release level.
    wanted = (guest >> 24, guest >> 16 & 0xFF)
    if found is None or (int(found[1]), int(found[2])) != wanted or found[3].strip("+"):
        version = found[0].split()[-1].strip('"') if found else "an unknown version"
        raise BuildError(
            f"{headers} has the headers of CPython {version}; packages are compiled with those of "
            f"a final release of {wanted[0]}.{wanted[1]}"
        )
    if guest >> 4 & 0xF != 0xF:
        raise BuildError("the sandbox's Python is not a final release: nothing is compiled for it")


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
        done = run(command, cwd=folder, env=environment, stdout=out, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        advice = explain(log.read_text(errors="replace"))
        raise BuildError(advice or f"the package's build failed:\n{report(log)}")


def report(log):
    """Returns the errors in a log with some lines around them, or its end."""
    lines = [line[:300] for line in log.read_text(errors="replace").splitlines()]
    # cargo shows rustc's options, such as `--error-format`.
    errors = [i for i, line in enumerate(lines) if re.search(r"(?<!-)\berror\b", line, re.I)]
    if not errors:
        return "\n".join(lines[-25:])
    shown = sorted({j for i in errors[:6] for j in range(max(0, i - 1), min(len(lines), i + 5))})
    return "\n".join(lines[i] for i in shown[:40])
