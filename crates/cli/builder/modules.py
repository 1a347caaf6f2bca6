"""Builds extension modules that a recipe lists file by file."""

import re
import zipfile
from pathlib import Path

from recipe import inside
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
            objects.mkdir()
            flags = [*module.get("flags", [])]
            flags += [f"-I{inside(work, folder)}" for folder in module.get("include", [])]
            made = []
            for index, source in enumerate(sources(plan, module, work)):
                compiler = "cc" if source.suffix == ".c" else "c++"
                made.append(objects / f"{index}-{source.stem}.o")
                run_logged(
                    [tools / compiler, *flags, "-c", source, "-o", made[-1]], work, environment, log
                )
            out = objects / f"{module['name'].rpartition('.')[2]}.wasm"
            run_logged([tools / "ld", *made, "-o", out], work, environment, log)
            archive.write(out, module["name"].replace(".", "/") + ".wasm")
        archive.writestr(f"{info}/METADATA", METADATA.format(name=plan.name, version=plan.version))
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: belljar\n")
    return wheel


def sources(plan, module, work):
    """Returns the files to compile: those of the sources, and those beside the recipe."""
    without = set(module.get("without", []))
    found = []
    for pattern in module["sources"]:
        matches = sorted(path for path in work.glob(pattern) if path.name not in without)
        if not matches:
            raise BuildError(f"the recipe of {plan.name} lists {pattern}, which no source matches")
        found += [inside(work, path.relative_to(work)) for path in matches]
    return found + [inside(plan.folder, name) for name in module.get("own", [])]
