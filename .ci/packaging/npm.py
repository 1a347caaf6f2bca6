"""Lays out the packages for npm: the package itself, and one with the addon for each platform.

python npm.py FOLDER VERSION LICENSES x86_64-linux=ADDON ...
"""

import json
import re
import shutil
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
PLATFORMS = {
    "x86_64-linux": {"os": ["linux"], "cpu": ["x64"], "libc": ["glibc"]},
    "aarch64-linux": {"os": ["linux"], "cpu": ["arm64"], "libc": ["glibc"]},
    "x86_64-windows": {"os": ["win32"], "cpu": ["x64"]},
}
# A link to a file.
LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]+\)")


def name_of(target: str) -> str:
    """As `crates/node/lib/native.js` looks for it."""
    platform = PLATFORMS[target]
    return f"belljar-{platform['os'][0]}-{platform['cpu'][0]}"


def write(folder: Path, package: dict) -> None:
    (folder / "package.json").write_text(json.dumps(package, indent=2) + "\n")


def main(folder: str, version: str, licenses: str, *addons: str) -> None:
    root = Path(folder, "belljar")
    root.mkdir(parents=True)
    package = json.loads((TOP / "crates/node/package.json").read_text())
    for name in ("index.js", "index.d.ts"):
        shutil.copy(TOP / "crates/node" / name, root)
    shutil.copytree(TOP / "crates/node/lib", root / "lib")
    shutil.copy(TOP / "LICENSE", root)
    # Its links are those of the repository.
    guide = (TOP / "docs/guide/node.md").read_text()
    (root / "README.md").write_text(LINK.sub(r"\1", guide))
    optional = {}
    for target, _, addon in (word.partition("=") for word in addons):
        name = name_of(target)
        optional[name] = version
        part = Path(folder, name)
        part.mkdir()
        shutil.copy(addon, part / "belljar.node")
        shutil.copy(TOP / "LICENSE", part)
        shutil.copy(licenses, part)
        described = {
            "name": name,
            "version": version,
            "description": f"The addon of belljar for {target}",
            "license": package["license"],
            "main": "belljar.node",
            "files": ["belljar.node", Path(licenses).name],
            "engines": package["engines"],
        }
        write(part, described | PLATFORMS[target])
    # What only the repository needs.
    for key in ("private", "scripts", "devDependencies"):
        del package[key]
    package["files"] = [name for name in package["files"] if name != "belljar.node"]
    write(root, package | {"version": version, "optionalDependencies": optional})


if __name__ == "__main__":
    main(*sys.argv[1:])
