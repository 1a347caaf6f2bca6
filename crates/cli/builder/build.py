"""Builds a package with native code for the sandbox: `belljar package build`.

The source distribution's own build runs with belljar's compiler. The wheel that it makes is then
checked against the artifact and named for the sandbox.
"""

import argparse
import json
import os
import re
import select
import shutil
import signal
import sys
import tarfile
import threading
import time

# tarfile has it since 3.11.4.
if sys.version_info < (3, 11) or not hasattr(tarfile, "data_filter"):
    print('{"error": "building packages needs Python 3.11.4 or newer as python3"}')
    sys.exit(1)

import tempfile
from contextlib import suppress
from pathlib import Path

import kept
import modules
import recipe
import rust
import toolchain
import wheel
from toolchain import HERE, BuildError, Toolchain, output_of, run_logged, say, write_script

# Types of numpy's headers whose sizes are others in the guest.
NUMPY_SIZES = re.compile(r"(?<=#define NPY_SIZEOF_)(LONG|PY_INTPTR_T|INTP|UINTP) 8\b")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("requirement")
    for name in ("recipe", "cache", "artifact", "belljar", "headers", "out", "sources"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--source-hash")
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("--temporary", action="store_true")
    options = parser.parse_args()
    toolchain.QUIET = options.quiet
    for number in SIGNALS:
        signal.signal(number, interrupt)
    threading.Thread(target=watch_reader, daemon=True).start()
    try:
        report = {"wheel": build(options)}
    except toolchain.UsageError as failure:
        report = {"usage": str(failure)}
    except recipe.NoSourceError as failure:
        report = {"missing": str(failure)}
    except BuildError as failure:
        report = {"error": str(failure)}
    except KeyboardInterrupt:
        report = {"error": "the build was interrupted"}
    except Exception as failure:
        report = {"error": f"the build failed: {type(failure).__name__}: {failure}"}
    finally:
        # The command that wrote these programs may have ended already.
        if options.temporary:
            shutil.rmtree(HERE, ignore_errors=True)
    with suppress(BrokenPipeError):
        print(json.dumps(report), flush=True)


def interrupt(*_):
    """Ends the build. A second signal does not interrupt the removal of its files."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def watch_reader():
    """Interrupts the build when the command that waits for its result has ended."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    poll.poll()
    os.kill(os.getpid(), signal.SIGTERM)


def build(options):
    """Builds a wheel, unless it was built before. Returns what there is to say of it."""
    name, version = wanted(options.requirement)
    plan = recipe.read(name, version, options.recipe)
    plan.expected = options.source_hash
    cache = Path(options.cache)
    tools = Toolchain(cache, options.artifact, options.belljar, options.headers)
    built = kept.Kept(cache / "built", plan, tools)
    with built.locked():
        made = built.find()
        if made is None:
            started = time.monotonic()
            with built.making() as out:
                made = built.keep(compile_package(plan, tools, options, out))
            say(f"built {plan.name} {plan.version} in {time.monotonic() - started:.0f} s")
        else:
            say(f"{plan.name} {plan.version} was built before")
    if options.out:
        made["path"] = str(kept.copy(Path(made["path"]), Path(options.out).resolve()))
    return made


def compile_package(plan, tools, options, out):
    """Gets and compiles a package, and writes its wheel to the folder `out`."""
    tools.prepare()
    with tempfile.TemporaryDirectory(prefix="belljar-package-") as work:
        work = Path(work)
        say(f"getting the source of {plan.name} {plan.version or ''}".rstrip())
        source = plan.unpack(work, tools.python, options.sources)
        environment = build_environment(tools, plan, work)
        say(f"compiling {plan.name} {plan.version}")
        log = work / "build.log"
        for command in plan.commands:
            run_command(command, environment, work, log)
        modules.archive(plan, environment, work, log)
        if plan.modules:
            made = modules.build(plan, environment, work, log)
        elif rust.is_rust(source):
            made = rust.build(source, plan, environment, work, log)
        else:
            made = run_backend(source, plan, environment, work, log)
        refuse_failures(work / "failures", log)
        licenses = {name: recipe.inside(work, name) for name in plan.licenses}
        return wheel.finish(made, tools.names(), out, licenses)


def run_command(command, environment, work, log):
    """Runs a command of the recipe in the folder of a source."""
    known = {"{work}": str(work), "{jobs}": str(os.cpu_count() or 1)}
    arguments = command["run"]
    for name, value in known.items():
        arguments = [argument.replace(name, value) for argument in arguments]
    if shutil.which(arguments[0]) is None and "/" not in arguments[0]:
        raise BuildError(f"the build needs the program {arguments[0]}, which is not installed")
    run_logged(arguments, recipe.inside(work, command["folder"]), environment, log)


def refuse_failures(failures, log):
    """Refuses a wheel that lacks a module because its build goes on without it."""
    if failures.is_file():
        raise BuildError(failures.read_text(errors="replace").strip()[-4000:])
    text = log.read_text(errors="replace")
    if re.search(r'^(warning: )?build_ext: building extension "[^"]*" failed', text, re.M):
        raise BuildError(f"an extension was not compiled:\n{toolchain.report(log)}")


def wanted(requirement):
    found = re.fullmatch(r"\s*(\w[\w.-]*)\s*(?:==\s*([\w.!+-]+)\s*)?", requirement)
    if found is None:
        raise toolchain.UsageError(
            f"`{requirement}` is not a package, such as orjson or orjson==3.13.0"
        )
    return found[1], found[2]


def build_environment(chain, plan, work):
    """Returns the environment of the build, with compilers in a folder of their own."""
    tools = work / "tools"
    tools.mkdir()
    settings = json.loads(chain.tools.read_text())
    for name in ("cc", "c++", "ld"):
        write_script(tools / name, [sys.executable, "-S", HERE / "compiler.py", name])
    write_script(tools / "ar", [settings["zig"], "ar"])
    write_script(tools / "ranlib", [settings["zig"], "ranlib"])
    settings["failures"] = str(work / "failures")
    settings["libraries"] += [str(work / folder) for folder in [*plan.libraries, modules.STATIC]]
    settings["include"] += [str(work / folder) for folder in plan.includes]
    (work / "tools.json").write_text(json.dumps(settings))
    (work / "toolchain.cmake").write_text(
        "set(CMAKE_SYSTEM_NAME WASI)\nset(CMAKE_SYSTEM_PROCESSOR wasm32)\n"
        "set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)\n"
        f"set(CMAKE_C_COMPILER {tools / 'cc'})\nset(CMAKE_CXX_COMPILER {tools / 'c++'})\n"
        f"set(CMAKE_AR {tools / 'ar'})\nset(CMAKE_RANLIB {tools / 'ranlib'})\n"
        # The compiler has no clang-scan-deps.
        "set(CMAKE_CXX_SCAN_FOR_MODULES OFF)\n"
        # Stripping removes the relocations.
        'set(CMAKE_STRIP "" CACHE FILEPATH "")\n'
        'set(CMAKE_SHARED_LIBRARY_CREATE_C_FLAGS "")\n'
        'set(CMAKE_SHARED_LIBRARY_CREATE_CXX_FLAGS "")\n'
    )
    (work / "cross.ini").write_text(
        f"[binaries]\nc = '{tools / 'cc'}'\ncpp = '{tools / 'c++'}'\n"
        f"ar = '{tools / 'ar'}'\nnumpy-config = '{work / 'venv/bin/numpy-config'}'\n"
        "[host_machine]\nsystem = 'wasi'\n"
        "cpu_family = 'wasm32'\ncpu = 'wasm32'\nendian = 'little'\n"
    )
    environment = dict(chain.environment)
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
    if rust.uses_rust(source):
        environment = rust.environment_of(environment, work, None)
    environment = environment | {
        "PYTHONPATH": str(HERE / "target"),
        "PATH": f"{venv / 'bin'}{os.pathsep}{environment['PATH']}",
    }
    hook = [python, HERE / "hooks/backend.py", backend, os.pathsep.join(path)]
    settings = json.dumps(settings_of(plan, backend, work))
    asked = work / "requires.json"
    run_logged([*hook, "requires", asked, settings], source, environment, log)
    more = [r for r in json.loads(asked.read_text()) if not re.match(r"(cmake|ninja)\b.*", r)]
    more += [r for r in json.loads(asked.read_text()) if re.match(r"(cmake|ninja)\b.*", r)]
    install(python, more)
    for header in venv.glob("lib/python3*/site-packages/numpy/_core/include/numpy/_numpyconfig.h"):
        header.write_text(NUMPY_SIZES.sub(r"\1 4", header.read_text()))
    wheels = work / "wheels"
    wheels.mkdir()
    run_logged([*hook, "wheel", wheels, settings], source, environment, log)
    made = [*wheels.glob("*.whl")]
    if len(made) != 1:
        raise BuildError(f"the package's build made {len(made)} wheels, and one was expected")
    return made[0]


def settings_of(plan, backend, work):
    """Returns the settings of the build backend. Meson takes the compiler from a file."""
    settings = dict(plan.settings)
    if backend == "mesonpy":
        setup = settings.get("setup-args", [])
        setup = [setup] if isinstance(setup, str) else setup
        settings["setup-args"] = [f"--cross-file={work / 'cross.ini'}", *setup]
    return settings


def install(python, requirements):
    if requirements:
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        output_of([*pip, *requirements], cwd=python.parent)


if __name__ == "__main__":
    main()
