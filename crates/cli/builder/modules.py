"""Compiles what a recipe lists file by file: extension modules, and static libraries."""

import os
import re
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from recipe import STATIC, inside
from toolchain import BuildError, run_logged

METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"


def build(plan, environment, work, log):
    """Compiles and links the modules, and returns a wheel of them."""
    tools = Path(environment["BELLJAR_TOOLS_BIN"])
    distribution = re.sub(r"[-_.]+", "_", plan.name)
    info = f"{distribution}-{plan.version}.dist-info"
    wheel = work / f"{distribution}-{plan.version}-cp315-cp315-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for number, module in enumerate(plan.modules):
            objects = work / f"objects-{number}"
            made = compile_files(plan, module, objects, environment, work, log)
            out = objects / f"{module['name'].rpartition('.')[2]}.wasm"
            run_logged([tools / "ld", *made, "-o", out], work, environment, log)
            archive.write(out, module["name"].replace(".", "/") + ".wasm")
        archive.writestr(f"{info}/METADATA", METADATA.format(name=plan.name, version=plan.version))
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: belljar\n")
    return wheel


def archive(plan, environment, work, log):
    """Makes the static libraries. Entries with the same name make one library."""
    libraries = {}
    for number, static in enumerate(plan.statics):
        objects = work / f"static-{number}"
        made = compile_files(plan, static, objects, environment, work, log)
        libraries.setdefault(static["name"], []).extend(made)
    if libraries:
        (work / STATIC).mkdir()
    for name, objects in libraries.items():
        command = [environment["AR"], "rcs", work / STATIC / f"lib{name}.a", *objects]
        run_logged(command, work, environment, log)


def compile_files(plan, part, objects, environment, work, log):
    """Compiles the files of a module or a library, as many at once as there are processors."""
    objects.mkdir()
    tools = Path(environment["BELLJAR_TOOLS_BIN"])
    flags = [*part.get("flags", [])]
    flags += [f"-I{inside(work, folder)}" for folder in part.get("include", [])]

    def run_compiler(index, source):
        compiler = "cc" if source.suffix == ".c" else "c++"
        made = objects / f"{index}-{source.stem}.o"
        command = [tools / compiler, *flags, "-c", source, "-o", made]
        run_logged(command, work, environment, log)
        return made

    found = sources(plan, part, work)
    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        return list(pool.map(run_compiler, range(len(found)), found))
    finally:
        pool.shutdown(cancel_futures=True)


def sources(plan, part, work):
    """Returns the files to compile: those of the sources, and those beside the recipe."""
    without = set(part.get("without", []))
    found = []
    for pattern in part["sources"]:
        matches = sorted(path for path in work.glob(pattern) if path.name not in without)
        if not matches:
            raise BuildError(f"the recipe of {plan.name} lists {pattern}, which no source matches")
        found += [inside(work, path.relative_to(work)) for path in matches]
    return found + [inside(plan.folder, name) for name in part.get("own", [])]
