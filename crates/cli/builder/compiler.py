"""The compiler and the linker that a package's build runs: `compiler.py cc|c++|ld ARGUMENTS`.

They take what compilers of a Unix system take, leave out what means this machine, and compile for
the guest. `ld` makes an extension module: statically linked, with its relocations.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import wasm

CPU = (
    "generic+bulk_memory+sign_ext+nontrapping_fptoint+mutable_globals+multivalue"
    "+reference_types+simd128+exception_handling"
)
# Exceptions and setjmp in the encoding of the WebAssembly standard.
EXCEPTIONS = ["-mllvm", "-wasm-use-legacy-eh=false"]
SETJMP = ["-mllvm", "-wasm-enable-sjlj"]
DEFAULT = ["-target", "wasm32-wasi", f"-mcpu={CPU}", "-O2", "-DNDEBUG", "-D_GNU_SOURCE"]
DEFAULT += ["-D_WASI_EMULATED_SIGNAL", "-D_WASI_EMULATED_PROCESS_CLOCKS"]
DEFAULT += ["-D_WASI_EMULATED_GETPID", "-D_WASI_EMULATED_MMAN"]
# Each extension of a package has its own copy of a library's types; copies count as the same type.
TYPES = ["-D_LIBCPP_TYPEINFO_COMPARISON_IMPLEMENTATION=2", "-fno-assume-unique-vtables"]
# The compiler's C++ library for WASI leaves out <fstream> and <filesystem>.
FILES = ["-U_LIBCPP_HAS_FILESYSTEM", "-D_LIBCPP_HAS_FILESYSTEM=1"]
FORCED = ["-g0", "-fno-stack-protector", "-fno-sanitize=all", "-Wno-unused-command-line-argument"]

# Options that mean this machine, and how many arguments follow them.
DROPPED = {"-pthread": 0, "-pipe": 0, "-g": 0, "-arch": 1, "-isysroot": 1, "-target": 1}
DROPPED |= {"-rdynamic": 0, "-shared": 0, "-fPIC": 0, "-fpic": 0, "-static": 0, "-s": 0}
DROPPED |= {"-bundle": 0, "-undefined": 1, "-rpath": 1, "-fwrapv-pointer": 0}
DROPPED_PREFIXES = ("-march=", "-mtune=", "-mcpu=", "-m64", "-m32", "-msse", "-mavx", "-mssse")
DROPPED_PREFIXES += ("-mpopcnt", "-mbmi", "-mfma", "-maes", "-mpclmul", "-flto", "-fno-lto")
DROPPED_PREFIXES += ("-ffat-lto", "-fstack-protector", "-fstack-clash", "-fcf-protection")
DROPPED_PREFIXES += ("-specs=", "--target=", "-Wl,", "-Wp,", "-ggdb", "-g1", "-g2", "-g3")
DROPPED_PREFIXES += ("-fno-semantic-interposition", "-fprofile", "-fno-plt", "-mno-", "-mfloat")
# Libraries that every Unix has; the parts that exist here are linked always.
SYSTEM = {"c", "m", "dl", "pthread", "rt", "util", "gcc", "gcc_s", "stdc++", "c++", "atomic"}

# The host's function from which Rust's library gets random numbers.
RANDOM = ("wasi_snapshot_preview1", "random_get")

HOST_PYTHON = re.compile(r"/include/(?:[\w.-]+/)?python3(\.\d+)?t?(/|$)")


def tools():
    return json.loads(Path(os.environ["BELLJAR_TOOLS"]).read_text())


def run(command):
    sys.exit(subprocess.run(command, check=False).returncode)


def kept(arguments):
    """Returns the arguments without those that mean this machine."""
    out, skip = [], 0
    for argument in arguments:
        if out and out[-1] == "-I":
            argument = out.pop() + argument
        if skip:
            skip -= 1
        elif argument in DROPPED:
            skip = DROPPED[argument]
        elif argument.startswith(DROPPED_PREFIXES) or (
            argument.startswith("-I") and HOST_PYTHON.search(argument)
        ):
            continue
        else:
            out.append(argument)
    return out


def compile_with(language, arguments):
    found = tools()
    command = [found["zig"], language, *DEFAULT, *EXCEPTIONS]
    if language == "c++":
        command += ["-fwasm-exceptions", *TYPES, *FILES]
    else:
        command.append("-mexception-handling")
    command += SETJMP
    arguments = kept(arguments)
    includes = [f"-I{folder}" for folder in found["include"]]
    run([*command, *arguments, *includes, *FORCED])


def link(arguments):
    """Links objects and archives to an extension module."""
    found = tools()
    out, inputs, folders, wanted, skip, initializers = None, [], [], [], None, []
    for argument in arguments:
        if skip:
            if skip == "-o":
                out = argument
            elif skip == "-L":
                folders.append(argument)
            elif skip == "-l":
                wanted.append(argument)
            elif skip == "--export" and argument.startswith("PyInit_"):
                initializers.append(argument)
            skip = None
        elif argument in ("-o", "-L", "-l", "--export"):
            skip = argument
        elif argument.startswith("--export=PyInit_"):
            initializers.append(argument[9:])
        elif argument in DROPPED:
            skip = "dropped" if DROPPED[argument] else None
        elif argument.startswith("-L"):
            folders.append(argument[2:])
        elif argument.startswith("-l"):
            wanted.append(argument[2:])
        elif argument.endswith((".o", ".obj", ".a", ".rlib", ".lib", ".wasm")):
            inputs.append(argument)
    folders = [*found["libraries"], *folders]
    for name in wanted:
        paths = [Path(folder, f"lib{name}.a") for folder in folders]
        library = next((path for path in paths if path.is_file()), None)
        if library is not None and not str(library).startswith(("/usr/", "/lib")):
            inputs.append(str(library))
        elif name not in SYSTEM and not name.startswith("python"):
            print(f"belljar: -l{name} is not linked: no such library", file=sys.stderr)
    if out is None:
        sys.exit("belljar: the linker needs -o")
    link_extension(found, out, inputs, initializers)


def initializer_of(out, exported):
    """Returns the function that makes the module `out`.

    Of Rust, the functions of modules within it are exported, too.
    """
    stem = Path(out).name.split(".")[0]
    named = [f"PyInit_{name}" for name in (stem, stem.removeprefix("lib"))]
    return next((name for name in named if name in exported), (exported or named)[0])


def link_extension(found, out, inputs, initializers):
    initializer = initializer_of(out, initializers)
    command = [found["zig"], "wasm-ld", "--no-entry", "--import-memory", "--import-table"]
    command += ["--allow-undefined", "--emit-relocs", "--gc-sections", "--strip-debug"]
    command += [f"--export={initializer}", "--export=__wasm_call_ctors"]
    command += ["--export=__heap_base", "--global-base=65536", "--table-base=1"]
    command += ["-z", "stack-size=0", "-o", out, *inputs]
    command += found["runtime"]
    done = subprocess.run(command, check=False, stderr=subprocess.PIPE)
    if done.returncode == 0:
        with tempfile.TemporaryDirectory() as folder:
            sources = random_sources(Path(out), Path(found["random"]), Path(folder))
            if sources:
                done = subprocess.run([*command, *sources], check=False, stderr=subprocess.PIPE)
    sys.stderr.buffer.write(done.stderr)
    # A probe for a function links a program. Only a module that is missing in the wheel counts.
    if done.returncode != 0 and out.endswith((".wasm", ".so", ".pyd")):
        with open(found["failures"], "ab") as failures:
            failures.write(f"{Path(out).name} was not linked:\n".encode() + done.stderr)
    sys.exit(done.returncode)


def random_sources(out, library, folder):
    """Writes objects to a folder that define `random_get` of WASI, where the module `out` imports
    it, and returns them.

    rustc gives an import of a host's function a symbol of another name in every crate.
    """
    module = out.read_bytes()
    if not module.startswith(b"\0asm"):
        return []  # a probe that links to /dev/null
    symbols, _ = wasm.symbols(module)
    names = {name for _, _, name, imported in symbols if imported == RANDOM}
    sources = []
    for number, name in enumerate(sorted(names)):
        rename = {"belljar_random_get": name}.get
        source = folder / f"random-{number}.o"
        source.write_bytes(wasm.symbols(library.read_bytes(), lambda n, to=rename: to(n, n))[1])
        sources.append(source)
    return sources


def main():
    tool, arguments = sys.argv[1], sys.argv[2:]
    if tool == "ld":
        link(arguments)
    if "-Wl,--version" in arguments:
        run([tools()["zig"], "wasm-ld", "--version"])
    compiling = {
        "-c",
        "-E",
        "-S",
        "-M",
        "-MM",
        "--version",
        "-dumpversion",
        "-v",
        "-print-prog-name",
    }
    if compiling.isdisjoint(arguments) and any(a.endswith((".o", ".obj", ".a")) for a in arguments):
        link(arguments)
    compile_with("c++" if tool == "c++" else "cc", arguments)


if __name__ == "__main__":
    main()
