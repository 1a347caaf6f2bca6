"""Builds a package with native code for the sandbox: `belljar package build`.

The source distribution's own build runs with belljar's compiler. The wheel that it makes is then
checked against the artifact and named for the sandbox.
"""

import argparse
import base64
import csv
import hashlib
import io
import json
import os
import re
import sys
import tempfile
import zipfile
from pathlib import Path

import recipe
import rust
import wasm
from toolchain import HERE, Failed, Toolchain, output_of, run_logged, say, write_script

SUFFIX = ".cpython-315-belljar_wasm32.wasm"
PLATFORM = "belljar_wasm32"
# Data of CPython that the linker finds in the artifact.
DATA = re.compile(r"^(_?Py\w+_Type|PyExc_\w+|_Py_\w+(Struct|Object)|_PyWeakref_\w+|Py_\w+Type)$")
OTHER_DATA = {"errno", "Py_Version"}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("requirement")
    for name in ("recipe", "cache", "artifact", "belljar", "headers", "out"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    try:
        wheel = build(options)
    except Failed as failure:
        sys.exit(f"error: {failure}")
    print(wheel)


def build(options):
    name, version = wanted(options.requirement)
    plan = recipe.read(name, version, options.recipe)
    cache = Path(options.cache)
    toolchain = Toolchain(cache, options.artifact, options.belljar, options.headers)
    toolchain.prepare()
    with tempfile.TemporaryDirectory(prefix="belljar-package-") as work:
        work = Path(work)
        say(f"getting the source of {name} {version}")
        source = plan.unpack(work, toolchain.python)
        environment = build_environment(toolchain, plan, work)
        say(f"compiling {name} {version}")
        log = work / "build.log"
        if rust.is_rust(source):
            wheel = rust.build(source, plan, environment, work, log)
        else:
            wheel = run_backend(source, plan, environment, work, log)
        out = Path(options.out or ".").resolve()
        out.mkdir(parents=True, exist_ok=True)
        return finish(wheel, toolchain, plan, out)


def wanted(requirement):
    found = re.fullmatch(r"\s*([A-Za-z0-9][\w.-]*)\s*==\s*([\w.!+-]+)\s*", requirement)
    if found is None:
        raise Failed(f"`{requirement}` is not a package and a version, such as orjson==3.13.0")
    return found[1], found[2]


def build_environment(toolchain, plan, work):
    """Returns the environment of the build, with compilers in a folder of their own."""
    tools = work / "tools"
    tools.mkdir()
    found = json.loads(toolchain.tools.read_text())
    for name in ("cc", "c++", "ld"):
        write_script(tools / name, [sys.executable, "-S", HERE / "compiler.py", name])
    write_script(tools / "ar", [found["zig"], "ar"])
    write_script(tools / "ranlib", [found["zig"], "ranlib"])
    settings = json.loads(toolchain.tools.read_text())
    settings["libraries"] += [str(work / folder) for folder in plan.libraries]
    settings["include"] += [str(work / folder) for folder in plan.includes]
    (work / "tools.json").write_text(json.dumps(settings))
    (work / "toolchain.cmake").write_text(
        "set(CMAKE_SYSTEM_NAME WASI)\nset(CMAKE_SYSTEM_PROCESSOR wasm32)\n"
        "set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)\n"
        f"set(CMAKE_C_COMPILER {tools / 'cc'})\nset(CMAKE_CXX_COMPILER {tools / 'c++'})\n"
        f"set(CMAKE_AR {tools / 'ar'})\nset(CMAKE_RANLIB {tools / 'ranlib'})\n"
        "set(CMAKE_SHARED_LIBRARY_CREATE_C_FLAGS \"\")\n"
        "set(CMAKE_SHARED_LIBRARY_CREATE_CXX_FLAGS \"\")\n"
    )
    environment = dict(toolchain.environment)
    for name in ("PYTHONPATH", "PYTHONHOME", "CFLAGS", "CXXFLAGS", "LDFLAGS", "CPPFLAGS"):
        environment.pop(name, None)
    environment |= {
        "BELLJAR_TOOLS": str(work / "tools.json"),
        "BELLJAR_TOOLS_BIN": str(tools),
        "BELLJAR_INCLUDE": settings["include"][0],
        "CC": str(tools / "cc"),
        "CXX": str(tools / "c++"),
        "AR": str(tools / "ar"),
        "RANLIB": str(tools / "ranlib"),
        "LDSHARED": str(tools / "ld"),
        "LDCXXSHARED": str(tools / "ld"),
        "CMAKE_TOOLCHAIN_FILE": str(work / "toolchain.cmake"),
        "_PYTHON_HOST_PLATFORM": "belljar-wasm32",
        "SOURCE_DATE_EPOCH": "315532800",
    }
    return environment | {k: v.replace("{work}", str(work)) for k, v in plan.environment.items()}


def run_backend(source, plan, environment, work, log):
    """Runs the package's own build in an environment with what it asks for."""
    venv = work / "venv"
    output_of([sys.executable, "-m", "venv", venv])
    python = venv / "bin/python"
    backend, path, requires = recipe.build_system(source)
    install(python, [*requires, *plan.requires])
    environment = environment | {
        "PYTHONPATH": str(HERE / "target"),
        "PATH": f"{venv / 'bin'}{os.pathsep}{environment['PATH']}",
    }
    hook = [python, HERE / "hooks/backend.py", backend, os.pathsep.join(path)]
    settings = json.dumps(plan.settings)
    asked = work / "requires.json"
    run_logged([*hook, "requires", asked, settings], source, environment, log)
    more = [r for r in json.loads(asked.read_text()) if not re.match(r"(cmake|ninja)\b.*", r)]
    more += [r for r in json.loads(asked.read_text()) if re.match(r"(cmake|ninja)\b.*", r)]
    install(python, more)
    wheels = work / "wheels"
    wheels.mkdir()
    run_logged([*hook, "wheel", wheels, settings], source, environment, log)
    return next(wheels.glob("*.whl"))


def install(python, requirements):
    if requirements:
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        output_of([*pip, *requirements], cwd=python.parent)


def finish(wheel, toolchain, plan, out):
    """Checks a wheel and writes it with the sandbox's names and tags."""
    with zipfile.ZipFile(wheel) as archive:
        files = {i.filename: archive.read(i) for i in archive.infolist() if not i.is_dir()}
    info = next(n.split("/")[0] for n in files if n.endswith(".dist-info/WHEEL"))
    files.pop(f"{info}/RECORD", None)
    here = set(Path(json.loads(toolchain.tools.read_text())["names"]).read_text().split())
    renamed, problems, extensions, abi = {}, [], 0, "cp315"
    for name, data in files.items():
        folder, _, base = name.rpartition("/")
        if data[:4] in (b"\x7fELF", b"\xcf\xfa\xed\xfe") or data[:2] == b"MZ":
            problems.append(f"{name} is compiled for this machine")
        elif data[:4] == b"\0asm" and base.split(".")[0] and "Py" in str(wasm.exports(data)):
            extensions += 1
            base = base.split(".")[0] + SUFFIX
            name = f"{folder}/{base}" if folder else base
            problems += [f"{name}: {p}" for p in check(data, here | set(plan.imports))]
        renamed[name] = data
    if extensions == 0:
        problems.append("the wheel has no extension module: the package is pure Python")
    if problems:
        raise Failed("the package does not fit into the sandbox:\n  " + "\n  ".join(problems))
    distribution, version = info.removesuffix(".dist-info").rsplit("-", 1)
    python = "cp315"
    if "-abi3-" in wheel.name:
        python, abi = wheel.name.split("-")[-3], "abi3"
    tag = f"{python}-{abi}-{PLATFORM}"
    lines = renamed[f"{info}/WHEEL"].decode().splitlines()
    lines = [l for l in lines if l.strip() and not l.startswith(("Tag:", "Root-Is-Purelib:"))]
    lines += ["Root-Is-Purelib: false", f"Tag: {tag}", ""]
    renamed[f"{info}/WHEEL"] = "\n".join(lines).encode()
    path = out / f"{distribution}-{version}-{tag}.whl"
    write_wheel(path, renamed, info)
    return path


def check(data, here):
    """Returns what an extension needs and the artifact does not have."""
    problems = []
    missing = []
    for module, name, kind in wasm.imports(data):
        if kind == 0 and not (module == "env" and name in here):
            missing.append(name if module == "env" else f"{module}.{name}")
        elif kind == 4:
            problems.append(f"imports the exception tag {name}")
        elif kind == 3:
            problems.append(f"imports the global {name}")
    symbols, _ = wasm.symbols(data)
    for kind, flags, name in symbols:
        if kind == wasm.DATA and flags & wasm.UNDEFINED and not flags & wasm.WEAK:
            if name not in OTHER_DATA and not DATA.match(name):
                missing.append(name)
    if missing:
        problems.append("not in the sandbox's Python: " + ", ".join(sorted(set(missing))))
    return problems


def write_wheel(path, files, info):
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")
    for name, data in sorted(files.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.writerow([name, f"sha256={digest}", len(data)])
    rows.writerow([f"{info}/RECORD", "", ""])
    unfinished = path.with_suffix(".unfinished")
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in [*sorted(files.items()), (f"{info}/RECORD", record.getvalue().encode())]:
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data)
    unfinished.replace(path)


if __name__ == "__main__":
    main()
