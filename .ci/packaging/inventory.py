"""What a release contains: an SBOM (CycloneDX 1.6), and the licenses of all crates.

python inventory.py bill OUTPUT TARGET [--bundle DIR]    # the command of a target, as JSON
python inventory.py licenses OUTPUT TARGET ...           # everything compiled for these targets

Targets are those of `.ci/release`. With a bundle, the software in the sandbox is listed, too.
"""

import argparse
import json
import subprocess
import tomllib
import uuid
from datetime import UTC, datetime
from pathlib import Path

from archives import EPOCH
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense, LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

TOP = Path(__file__).resolve().parents[2]
# What `.ci/release` compiles: a crate, its features, and whether those by default belong to them.
COMMAND = ("cli", "tls,stores,otel,cross", True)
STATIC = ("cli", "allocator,kernel,lambda,server", False)
LINUX = [COMMAND, ("node", "", True), ("python", "stores", True)]
BUILDS = {
    f"{processor}-linux": [(f"{processor}-unknown-linux-gnu", *build) for build in LINUX]
    + [(f"{processor}-unknown-linux-musl", *STATIC)]
    for processor in ("x86_64", "aarch64")
}
BUILDS["x86_64-windows"] = [
    ("x86_64-pc-windows-gnu", "cli", "", False),
    *(("x86_64-pc-windows-gnu", *build) for build in LINUX[1:]),
]
NAMES = ("license", "licence", "copying", "copyright", "notice", "unlicense")


def linked(
    target: str, crate: str, features: str, defaults: bool
) -> tuple[dict, list[tuple[dict, list[str]]]]:
    """A crate of the workspace, and every package linked into it with its dependencies."""
    words = ["cargo", "metadata", "--locked", "--format-version=1", f"--filter-platform={target}"]
    words += [f"--features={features}"] if features else []
    words += [] if defaults else ["--no-default-features"]
    words += ["--manifest-path", str(TOP / "crates" / crate / "Cargo.toml")]
    told = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)
    packages = {package["id"]: package for package in told["packages"]}
    needs = {
        node["id"]: [
            dep["pkg"] for dep in node["deps"] if any(k["kind"] is None for k in dep["dep_kinds"])
        ]
        for node in told["resolve"]["nodes"]
    }
    root = next(key for key, package in packages.items() if package["name"] == f"belljar-{crate}")
    found, left = set(), [root]
    while left:
        at = left.pop()
        if at not in found:
            found.add(at)
            left += needs[at]
    order = sorted(found, key=lambda key: (packages[key]["name"], packages[key]["version"]))
    return packages[root], [(packages[key], sorted(needs[key])) for key in order]


def sums() -> dict[tuple[str, str], str]:
    """Checksums of the registry's packages."""
    lock = tomllib.loads((TOP / "Cargo.lock").read_text())
    return {(p["name"], p["version"]): p["checksum"] for p in lock["package"] if "checksum" in p}


def guests(bundle: Path) -> list[Component]:
    """The software in the sandbox, from the bundle's list of it."""
    found = []
    for line in (bundle / "MANIFEST").read_text().splitlines():
        words = line.split(" ")
        if words[0] == "python":
            name, version = "cpython", words[1]
        elif words[0] == "package":
            name, version = words[1:3]
        else:
            continue
        found.append(
            Component(
                type=ComponentType.LIBRARY,
                name=name,
                version=version,
                bom_ref=f"sandbox:{name}@{version}",
                purl=PackageURL("generic", None, name, version),
            )
        )
    return found


def bill(target: str, bundle: Path | None) -> Bom:
    root, packages = linked(*BUILDS[target][0])
    checksums = sums()
    bom = Bom()
    known = {}
    for package, _ in packages:
        name, version = package["name"], package["version"]
        checksum = checksums.get((name, version))
        license = (package["license"] or "").replace("/", " OR ")
        file = package["license_file"]
        known[package["id"]] = Component(
            type=ComponentType.APPLICATION if package is root else ComponentType.LIBRARY,
            name=name,
            version=version,
            bom_ref=f"cargo:{name}@{version}",
            purl=PackageURL("cargo", None, name, version) if checksum else None,
            licenses=[LicenseExpression(license)]
            if license
            else [DisjunctiveLicense(name=f"file {file}")]
            if file
            else [],
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=checksum)] if checksum else [],
        )
    bom.metadata.component = known[root["id"]]
    # The same for the same content.
    bom.metadata.timestamp = datetime.fromtimestamp(EPOCH, UTC)
    for package, needs in packages:
        component = known[package["id"]]
        if package is not root:
            bom.components.add(component)
        bom.register_dependency(component, [known[key] for key in needs])
    if bundle:
        bom.components.update(guests(bundle))
    text = "\n".join(sorted(str(c.bom_ref.value) for c in bom.components))
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, f"belljar {EPOCH}\n{text}")
    return bom


def licenses(targets: list[str]) -> str:
    """The text of every license file of the packages from registries, equal texts once."""
    texts: dict[str, list[str]] = {}
    packages = {}
    for target in targets:
        for build in BUILDS[target]:
            packages |= {package["id"]: package for package, _ in linked(*build)[1]}
    for package in packages.values():
        if package["source"] is None:
            continue
        title = f"{package['name']} {package['version']} ({package['license'] or 'see below'})"
        folder = Path(package["manifest_path"]).parent
        files = sorted(
            file
            for file in folder.iterdir()
            if file.is_file() and file.name.lower().startswith(NAMES)
        )
        for file in files:
            text = file.read_text(errors="replace").strip()
            texts.setdefault(text, []).append(title)
        if not files:
            missing = "(its package has no license file)"
            texts.setdefault(missing, []).append(title)
    parts = [
        "\n".join(sorted(set(titles))) + "\n\n" + text
        for text, titles in sorted(texts.items(), key=lambda item: item[1])
    ]
    return f"\n\n{'=' * 80}\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["bill", "licenses"])
    parser.add_argument("output", type=Path)
    parser.add_argument("targets", nargs="+", choices=BUILDS)
    parser.add_argument("--bundle", type=Path)
    asked = parser.parse_args()
    if asked.what == "licenses":
        asked.output.write_text(licenses(asked.targets))
        return
    (target,) = asked.targets
    text = JsonV1Dot6(bill(target, asked.bundle)).output_as_string(indent=1)
    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if problem is not None:
        raise SystemExit(f"the SBOM is invalid: {problem}")
    asked.output.write_text(text + "\n")


if __name__ == "__main__":
    main()
