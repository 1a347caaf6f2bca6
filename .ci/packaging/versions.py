"""Compares the version in Cargo.toml with every other file that has to repeat it."""

import json
import re
import tomllib
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]


def toml(file: str) -> dict:
    return tomllib.loads((TOP / file).read_text())


def stated() -> tuple[str, dict[str, str]]:
    """The version, and what other files say."""
    workspace = toml("Cargo.toml")["workspace"]
    extras = toml("crates/python/pyproject.toml")["project"]["optional-dependencies"]
    found = {
        f"Cargo.toml: {name}": wanted["version"]
        for name, wanted in workspace["dependencies"].items()
        if "path" in wanted
    }
    found["crates/python/pyproject.toml: data"] = extras["data"][0].partition("==")[2]
    package = json.loads((TOP / "crates/node/package.json").read_text())
    lock = json.loads((TOP / "crates/node/package-lock.json").read_text())
    found["crates/node/package.json"] = package["version"]
    found["crates/node/package-lock.json"] = lock["version"]
    deployed = (TOP / "deploy/kubernetes/base/kustomization.yaml").read_text()
    found["deploy/kubernetes/base"] = re.search(r'newTag: "(.*)"', deployed)[1]
    return workspace["package"]["version"], found


def main() -> None:
    version, found = stated()
    wrong = [f"{place}: {other}" for place, other in found.items() if other != version]
    if wrong:
        raise SystemExit("\n".join([f"Cargo.toml has version {version}, but", *wrong]))
    print(f"{version} in {len(found) + 1} places")


if __name__ == "__main__":
    main()
