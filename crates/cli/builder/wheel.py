"""Checks a wheel against the artifact, and writes it with the sandbox's names and tags."""

import base64
import csv
import hashlib
import io
import os
import tempfile
import zipfile

import wasm
from toolchain import BuildError

SUFFIX = ".cpython-315-belljar_wasm32.wasm"
PLATFORM = "belljar_wasm32"
# Exceptions have the artifact's tags.
TAGS = {"__cpp_exception", "__c_longjmp"}


def finish(wheel, here, out, licenses=None):
    """Checks a wheel and writes it with the sandbox's names and tags.

    `here` are the names of the artifact that an extension may use. `licenses` are license files of
    further sources, by the names that they get.
    """
    with zipfile.ZipFile(wheel) as archive:
        files = {i.filename: archive.read(i) for i in archive.infolist() if not i.is_dir()}
    info = next(n.split("/")[0] for n in files if n.endswith(".dist-info/WHEEL"))
    files.pop(f"{info}/RECORD", None)
    renamed, problems, extensions, abi = {}, [], 0, "cp315"
    for name, data in files.items():
        folder, _, base = name.rpartition("/")
        if data[:4] in (b"\x7fELF", b"\xcf\xfa\xed\xfe") or data[:2] == b"MZ":
            problems.append(f"{name} is compiled for this machine")
        elif is_extension(name, data):
            extensions += 1
            module = base.split(".")[0]
            base = module + SUFFIX
            name = f"{folder}/{base}" if folder else base
            problems += [f"{name}: {p}" for p in check(data, here)]
            module = folder.rpartition("/")[2] if module == "__init__" else module
            if not any(export == f"PyInit_{module}" for export, _ in wasm.exports(data)):
                problems.append(f"{name}: does not define PyInit_{module}")
        renamed[name] = data
    if extensions == 0:
        problems.append("the wheel has no extension module: the package is pure Python")
    if problems:
        raise BuildError("the package does not fit into the sandbox:\n  " + "\n  ".join(problems))
    for name, path in (licenses or {}).items():
        renamed[f"{info}/licenses/{name}"] = path.read_bytes()
    distribution, version = info.removesuffix(".dist-info").rsplit("-", 1)
    python = "cp315"
    if "-abi3-" in wheel.name:
        python, abi = wheel.name.split("-")[-3], "abi3"
    tag = f"{python}-{abi}-{PLATFORM}"
    lines = renamed[f"{info}/WHEEL"].decode().splitlines()
    lines = [
        line for line in lines if line.strip() and not line.startswith(("Tag:", "Root-Is-Purelib:"))
    ]
    lines += ["Root-Is-Purelib: false", f"Tag: {tag}", ""]
    renamed[f"{info}/WHEEL"] = "\n".join(lines).encode()
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{distribution}-{version}-{tag}.whl"
    write_wheel(path, renamed, info)
    return path


def is_extension(name, data):
    if data[:4] != b"\0asm":
        return False
    is_named = name.endswith((SUFFIX, ".so", ".pyd"))
    return is_named or any(n.startswith("PyInit_") for n, _ in wasm.exports(data))


def check(data, here):
    """Returns what an extension needs and the artifact does not have."""
    problems = []
    missing = []
    for module, name, kind in wasm.imports(data):
        if kind == 0 and not (module == "env" and name in here):
            missing.append(name if module == "env" else f"{module}.{name}")
        elif kind == 4 and name not in TAGS:
            problems.append(f"imports the exception tag {name}")
        elif kind == 3:
            problems.append(f"imports the global {name}")
    symbols, _ = wasm.symbols(data)
    for kind, flags, name, _ in symbols:
        needed = kind == wasm.DATA and flags & wasm.UNDEFINED and not flags & wasm.WEAK
        if needed and name not in here:
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
    handle, unfinished = tempfile.mkstemp(dir=path.parent, prefix=".")
    try:
        with os.fdopen(handle, "wb") as out, zipfile.ZipFile(out, "w") as archive:
            for name, data in [*sorted(files.items()), (f"{info}/RECORD", record.getvalue())]:
                entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = 0o644 << 16
                archive.writestr(entry, data)
        os.chmod(unfinished, 0o644)
        os.replace(unfinished, path)
    except BaseException:
        os.unlink(unfinished)
        raise
