"""Recipes: what is special about a package's build.

A recipe is a TOML file. All of its keys are optional; a package without a recipe is built with
its defaults.
"""

import hashlib
import os
import re
import shutil
import tarfile
import tomllib
import urllib.request
import zipfile
from pathlib import Path

from toolchain import HERE, BuildError, output_of

KEYS = {"version", "sha256", "environment", "requires", "settings", "replace"}
KEYS |= {"include", "library", "cargo", "source", "static", "module", "license", "own", "command"}
# The folder of the static libraries.
STATIC = "static"


def plain_name(name):
    """Returns a package's name in the form that is equal for all ways to write it."""
    # `_decimal` is not `decimal`.
    return re.sub(r"(?<=.)[-_.]+", "-", name).lower()


class NoSourceError(BuildError):
    """The package index has no source distribution of the package."""


class Plan:
    def __init__(self, name, version, values, folder):
        unknown = set(values) - KEYS
        if unknown:
            raise BuildError(f"the recipe of {name} has the unknown key {sorted(unknown)[0]}")
        self.name, self.version, self.folder = name, version or values.get("version"), folder
        self.path, self.source = None, None
        # SHA-256 that the source must have, if given.
        self.expected = None
        version = self.version
        # The version that the recipe is for.
        self.written_for = values.get("version")
        pinned = version is not None and self.written_for == version
        if values.get("module") and not pinned:
            raise BuildError(
                f"the recipe of {name} builds version {values.get('version')}, not {version}"
            )
        self.sha256 = values.get("sha256") if pinned else None
        self.environment = values.get("environment", {})
        self.requires = values.get("requires", [])
        self.settings = values.get("settings", {})
        self.includes = values.get("include", [])
        self.libraries = values.get("library", [])
        self.cargo = values.get("cargo", [])
        self.sources = values.get("source", [])
        self.replace = values.get("replace", [])
        self.statics = values.get("static", [])
        self.modules = values.get("module", [])
        # Files beside the recipe, by their names in the source.
        self.own = values.get("own", {})
        self.commands = values.get("command", [])
        self.licenses = values.get("license", [])
        if isinstance(self.licenses, str):
            self.licenses = [self.licenses]

    def files(self):
        """Returns the files of the recipe."""
        names = [name for part in [*self.statics, *self.modules] for name in part.get("own", [])]
        own = [inside(self.folder, name) for name in [*names, *self.own.values()]]
        return [self.path, *own] if self.path else []

    def unpack(self, work, python, sources):
        """Gets the source, checks and unpacks it, and returns its folder.

        A recipe with modules of its own has only the sources that it lists.
        """
        source = work
        archives = []
        for extra in self.sources:
            if "folder" not in extra:
                raise BuildError(f"a source in the recipe of {self.name} has no folder")
            if inside(work, extra["folder"]).is_relative_to(inside(work, STATIC)):
                raise BuildError(
                    f"a source in the recipe of {self.name} has the folder {STATIC}, which is that "
                    "of the static libraries; give another name"
                )
            if "url" in extra and "sha256" in extra:
                archive = download(extra["url"], extra["sha256"], work, sources)
            elif {"crate", "version", "sha256"} <= extra.keys():
                archive = crate(extra["crate"], extra["version"], extra["sha256"], work, sources)
            elif "name" in extra and "version" in extra:
                archive = fetch(python, extra["name"], extra["version"], extra.get("sha256"), work)
            else:
                raise BuildError(
                    f"the source {extra['folder']} in the recipe of {self.name} needs url and "
                    "sha256, or name and version, or crate, version and sha256"
                )
            archives.append((archive, inside(work, extra["folder"])))
        files = [*(archive for archive, _ in archives), *self.files()[1:]]
        if not self.modules:
            main = fetch(python, self.name, self.version, self.sha256, work)
            files.insert(0, main)
        hashes = [sha256_of(path) for path in files]
        # Without further files, it is the hash that the package index shows.
        if not self.modules and len(hashes) == 1:
            self.source = hashes[0]
        else:
            self.source = hashlib.sha256("\n".join(hashes).encode()).hexdigest()
        if self.expected not in (None, self.source):
            raise BuildError(
                f"the source of {self.name} has the SHA-256 {self.source}, and the lock file "
                f"wants {self.expected}"
            )
        for archive, folder in archives:
            unpack(archive, work / "unpacked").rename(folder)
        if not self.modules:
            source = unpack(main, work / "unpacked")
            self.version = self.version or version_of(source, self.name)
        for change in self.replace:
            folder = inside(work, change["folder"]) if "folder" in change else source
            path = inside(folder, change["file"])
            if "old" not in change:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(change["new"])
                continue
            text = path.read_text()
            if change["old"] not in text:
                raise BuildError(
                    f"the recipe of {self.name} replaces text that {path.name} lacks"
                    f"{self.other_version()}"
                )
            path.write_text(text.replace(change["old"], change["new"]))
        for name, own in self.own.items():
            path = inside(source, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(inside(self.folder, own), path)
        return source

    def other_version(self):
        """Returns what to add to an error if the recipe is for another version."""
        if self.written_for in (None, self.version):
            return ""
        return f": it is for version {self.written_for}, and this is {self.version}"


def version_of(source, name):
    """Returns the version in the metadata of a source distribution."""
    info = source / "PKG-INFO"
    text = info.read_text(errors="replace") if info.is_file() else ""
    found = re.search(r"^Version: ([\w.!+-]+)\s*$", text, re.M)
    if found is None:
        raise BuildError(f"the source of {name} does not tell its version; give NAME==VERSION")
    return found[1]


def inside(folder, name):
    """Returns the path of `name`, which must not leave the folder."""
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise BuildError(f"the recipe uses {name}, which is outside of its sources")
    return path


def read(name, version, path):
    """Reads the recipe at `path`, or the built-in one of the package."""
    given = path
    path = Path(given) if given else HERE / "recipes" / f"{plain_name(name)}.toml"
    if not path.is_file():
        if given:
            raise BuildError(f"there is no recipe {given}")
        return Plan(name, version, {}, path.parent)
    try:
        values = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as problem:
        raise BuildError(f"{path} is not a recipe: {problem}") from problem
    plan = Plan(name, version, values, path.parent)
    plan.path = path
    return plan


def fetch(python, name, version, sha256, work):
    """Downloads a source distribution with pip, checks its hash, and unpacks it."""
    to = work / "download" / name
    if to.exists():
        raise BuildError(f"the recipe has two sources with the name {name}")
    to.mkdir(parents=True)
    pip = [python, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    pip += ["--no-deps", "--no-binary=:all:", "--no-build-isolation", "--dest", to]
    if version:
        # The Python that it must fit is the sandbox's.
        pip.append("--ignore-requires-python")
    environment = dict(os.environ) | {"PYTHONPATH": str(HERE / "hooks")}
    try:
        output_of([*pip, f"{name}=={version}" if version else name], cwd=to, env=environment)
    except BuildError as problem:
        if "No matching distribution" in str(problem):
            raise NoSourceError(str(problem)) from problem
        raise
    archive = next(to.iterdir(), None)
    if archive is None:
        raise BuildError(f"pip has downloaded nothing for {name} {version or ''}")
    check_hash(archive, sha256)
    return archive


def download(url, sha256, work, sources):
    """Downloads a file, unless the folder `sources` has it, and checks its hash."""
    name = url.rpartition("/")[2]
    if not url.startswith("https://"):
        raise BuildError(f"the source {name} needs an https URL")
    path = work / "download" / name
    if path.exists():
        raise BuildError(f"the recipe has two sources with the name {name}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        if sources and Path(sources, name).is_file():
            shutil.copyfile(Path(sources, name), path)
        else:
            with urllib.request.urlopen(url, timeout=60) as answer, path.open("wb") as out:
                shutil.copyfileobj(answer, out)
    except OSError as problem:
        raise BuildError(
            f"cannot download {name}: {problem}; give --sources a directory that has it"
        ) from problem
    check_hash(path, sha256)
    return path


def crate(name, version, sha256, work, sources):
    """Gets the archive of a crate, from the folder `sources` or by cargo, and checks its hash."""
    file = f"{name}-{version}.crate"
    path = work / "download" / file
    if path.exists():
        raise BuildError(f"the recipe has two sources with the name {file}")
    if sources and Path(sources, file).is_file():
        found = Path(sources, file)
    else:
        found = from_cargo(name, version, file, work)
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(found, path)
    check_hash(path, sha256)
    return path


def from_cargo(name, version, file, work):
    """Returns a crate's archive among those that cargo has downloaded."""
    home = Path(os.environ.get("CARGO_HOME") or "~/.cargo").expanduser()

    def kept():
        return next(home.glob(f"registry/cache/*/{file}"), None)

    if kept() is None:
        if shutil.which("cargo") is None:
            raise BuildError(
                f"cargo downloads the crate {name}: install Rust, or give --sources a directory "
                f"that has {file}"
            )
        # cargo downloads only what a package depends on.
        package = work / "crates" / f"{name}-{version}"
        (package / "src").mkdir(parents=True)
        (package / "src/lib.rs").touch()
        (package / "Cargo.toml").write_text(
            f'[package]\nname = "sources"\nversion = "0.0.0"\n'
            f'[dependencies]\n{name} = "={version}"\n[workspace]\n'
        )
        output_of(["cargo", "fetch", "--quiet"], cwd=package)
    found = kept()
    if found is None:
        raise BuildError(f"cargo has not kept {file} in {home}; give --sources a directory with it")
    return found


def sha256_of(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def check_hash(path, sha256):
    found = sha256_of(path)
    if sha256 is not None and found != sha256:
        raise BuildError(f"{path.name} has the SHA-256 {found}, and the recipe wants {sha256}")


def unpack(archive, to):
    """Unpacks an archive with one folder, and returns that folder."""
    folder = to / archive.name
    folder.mkdir(parents=True)
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(folder)
    else:
        with tarfile.open(archive) as opened:
            opened.extractall(folder, filter="data")
    inner = next((path for path in folder.iterdir() if path.is_dir()), None)
    if inner is None:
        raise BuildError(f"{archive.name} has no folder")
    return inner


def project(source):
    """Returns the contents of pyproject.toml."""
    path = source / "pyproject.toml"
    return tomllib.loads(path.read_text()) if path.is_file() else {}


def build_system(source):
    """Returns a project's backend, the folders of its modules, and what it requires."""
    table = project(source).get("build-system", {})
    legacy = "setuptools.build_meta:__legacy__"
    requires = table.get("requires", ["setuptools"])
    return table.get("build-backend", legacy), table.get("backend-path", []), requires
