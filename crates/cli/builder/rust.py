"""Builds packages written in Rust, whose build backend is maturin.

maturin asks the interpreter that it builds for, which cannot run here. Cargo alone is enough: it
makes the module, and the source distribution has the metadata.
"""

import re
import shutil
import zipfile
from pathlib import Path

import recipe
from toolchain import BuildError, run_logged

TARGET = "wasm32-wasip1"
FEATURES = "+simd128,+bulk-memory,+sign-ext,+nontrapping-fptoint,+multivalue,+reference-types"
FLAGS = f"-Clink-self-contained=no -Crelocation-model=static -Ctarget-feature={FEATURES}"
PYO3 = """implementation=CPython
version=3.15
shared=true
abi3={abi3}
pointer_width=32
build_flags=
suppress_build_script_link_lines=true
"""


def is_rust(source):
    return recipe.build_system(source)[0].startswith("maturin")


def uses_rust(source):
    """Whether setuptools runs cargo."""
    requires = recipe.build_system(source)[2]
    return any(re.match(r"setuptools[-_.]rust\b", one, re.I) for one in requires)


def environment_of(environment, work, stable):
    """Returns the environment in which cargo compiles for the sandbox."""
    if shutil.which("cargo") is None:
        raise BuildError("the package is written in Rust: install Rust, and its target " + TARGET)
    tools = Path(environment["BELLJAR_TOOLS_BIN"])
    (work / "pyo3.txt").write_text(PYO3.format(abi3="true" if stable else "false"))
    name = TARGET.replace("-", "_")
    environment = environment | {
        "CARGO_BUILD_TARGET": TARGET,
        f"CARGO_TARGET_{name.upper()}_LINKER": str(tools / "ld"),
        f"CARGO_TARGET_{name.upper()}_RUSTFLAGS": FLAGS,
        f"CC_{name}": str(tools / "cc"),
        f"CXX_{name}": str(tools / "c++"),
        f"AR_{name}": str(tools / "ar"),
        "HOST_CC": "cc",
        "HOST_CXX": "c++",
        "CARGO_TARGET_DIR": str(work / "target"),
        "PYO3_CONFIG_FILE": str(work / "pyo3.txt"),
        "PYO3_USE_ABI3_FORWARD_COMPATIBILITY": "1",
    }
    for variable in ("CC", "CXX", "AR", "RANLIB", "LDSHARED", "RUSTFLAGS"):
        environment.pop(variable, None)
    return environment


def build(source, plan, environment, work, log):
    """Compiles the crate and returns a wheel of it."""
    project = recipe.project(source)
    settings = project.get("tool", {}).get("maturin", {})
    manifest = source / settings.get("manifest-path", "Cargo.toml")
    text = manifest.read_text()
    stable = re.search(r"abi3-py3(\d+)", text + repr(settings.get("features", [])))
    environment = environment_of(environment, work, stable)
    command = ["cargo", "rustc", "--manifest-path", manifest, "--release"]
    command += ["--lib", "--crate-type", "cdylib"]
    features = [f for f in settings.get("features", []) if isinstance(f, str)]
    if features:
        command += ["--features", ",".join(features)]
    run_logged([*command, *plan.cargo], source, environment, log, explain)
    made = [*(work / "target" / TARGET / "release").glob("*.wasm")]
    if len(made) != 1:
        raise BuildError(f"cargo made {len(made)} modules, and one was expected")
    return assemble(source, project, settings, made[0], work, stable)


def explain(text):
    """Returns what to do about a failure of cargo."""
    if "can't find crate for `core`" in text or "target may not be installed" in text:
        return f"Rust has no library for the sandbox: run `rustup target add {TARGET}`"
    return None


def assemble(source, project, settings, module, work, stable):
    """Puts module, Python files and metadata into a wheel, as maturin does."""
    info = (source / "PKG-INFO").read_text()
    name = re.search(r"^Name: (.+)$", info, re.M)[1].strip()
    version = re.search(r"^Version: (.+)$", info, re.M)[1].strip()
    full = settings.get("module-name") or module.stem
    package, _, last = full.rpartition(".")
    python = source / settings.get("python-source", "python")
    if "python-source" not in settings and not python.is_dir():
        python = source
    top = full.split(".")[0]
    files = {}
    if (python / top).is_dir():
        for path in sorted((python / top).rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                files[path.relative_to(python).as_posix()] = path.read_bytes()
        package = package or top
    folder = package.replace(".", "/") + "/" if package else ""
    files[f"{folder}{last}.wasm"] = module.read_bytes()
    distribution = re.sub(r"[-_.]+", "_", name)
    dist_info = f"{distribution}-{version}.dist-info"
    files[f"{dist_info}/METADATA"] = info.encode()
    files[f"{dist_info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: belljar\n"
    scripts = project.get("project", {}).get("scripts", {})
    if scripts:
        lines = "".join(f"{key}={value}\n" for key, value in scripts.items())
        files[f"{dist_info}/entry_points.txt"] = f"[console_scripts]\n{lines}".encode()
    for license_file in re.findall(r"^License-File: (.+)$", info, re.M):
        path = source / license_file.strip()
        if path.is_file():
            files[f"{dist_info}/licenses/{license_file.strip()}"] = path.read_bytes()
    tag = f"cp3{stable[1]}-abi3-any" if stable else "cp315-cp315-any"
    wheel = work / f"{distribution}-{version}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, data in files.items():
            archive.writestr(path, data)
    return wheel
