"""What a release contains: an SBOM (CycloneDX 1.6), and the licenses of all crates.

python inventory.py DIST --target x86_64-unknown-linux-gnu --features a,b [--bundle DIR]

Writes DIST/belljar-VERSION.cdx.json and DIST/THIRD-PARTY-LICENSES.txt. Crates are those that cargo
links into the command; with a bundle, the software in the sandbox is listed, too.
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
NAMES = ("license", "licence", "copying", "copyright", "notice", "unlicense")


def linked(target: str, features: str) -> tuple[dict, list[tuple[dict, list[str]]]]:
    """The command, and every package linked into it with the names of its dependencies."""
    words = ["cargo", "metadata", "--locked", "--format-version=1", f"--filter-platform={target}"]
    words += [f"--features={features}"] if features else []
    words += ["--manifest-path", str(TOP / "crates/cli/Cargo.toml")]
    told = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)
    packages = {package["id"]: package for package in told["packages"]}
    needs = {
        node["id"]: [
            dep["pkg"] for dep in node["deps"] if any(k["kind"] is None for k in dep["dep_kinds"])
        ]
        for node in told["resolve"]["nodes"]
    }
    root = next(key for key, package in packages.items() if package["name"] == "belljar-cli")
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


def bill(target: str, features: str, bundle: Path | None) -> Bom:
    root, packages = linked(target, features)
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


def licenses(target: str, features: str) -> str:
    """The text of every license file of the packages from registries, equal texts once."""
    texts: dict[str, list[str]] = {}
    for package, _ in linked(target, features)[1]:
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
    parser.add_argument("dist", type=Path)
    parser.add_argument("--target", required=True)
    parser.add_argument("--features", default="")
    parser.add_argument("--bundle", type=Path)
    asked = parser.parse_args()
    bom = bill(asked.target, asked.features, asked.bundle)
    text = JsonV1Dot6(bom).output_as_string(indent=1)
    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if problem is not None:
        raise SystemExit(f"the SBOM is invalid: {problem}")
    version = bom.metadata.component.version
    (asked.dist / f"belljar-{version}.cdx.json").write_text(text + "\n")
    (asked.dist / "THIRD-PARTY-LICENSES.txt").write_text(licenses(asked.target, asked.features))


if __name__ == "__main__":
    main()
