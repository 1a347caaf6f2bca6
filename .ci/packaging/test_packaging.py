"""Tests of the packaging scripts, which take seconds and compile nothing."""

import gzip
import hashlib
import io
import json
import os
import subprocess
import tarfile
import time
import zipfile
from pathlib import Path

import archives
import image
import npm
import pip
import pytest
import versions


@pytest.fixture
def tree(tmp_path):
    """A directory with a program, a file and a directory."""
    root = tmp_path / "tree"
    (root / "inner").mkdir(parents=True)
    (root / "inner/text").write_text("text")
    (root / "program").write_bytes(b"\x7fELF" * 1000)
    (root / "program").chmod(0o755)
    return root


def touch(root):
    """Changes what archives must not contain."""
    for path in (root, *root.rglob("*")):
        os.utime(path, (time.time() + 5000,) * 2)
        path.chmod(path.stat().st_mode & 0o700)


def test_versions_are_the_same_everywhere():
    version, found = versions.stated()
    assert set(found.values()) == {version}
    assert len(found) > 10


def test_another_version_is_noticed(monkeypatch):
    monkeypatch.setattr(versions, "stated", lambda: ("2.0.0", {"here": "2.0.0", "there": "1.0.0"}))
    with pytest.raises(SystemExit, match=r"there: 1\.0\.0"):
        versions.main()


def test_archives_depend_on_content_alone(tree, tmp_path):
    first, second = tmp_path / "first.zip", tmp_path / "second.zip"
    packed = archives.tar_bytes([("a", tree)])
    archives.write_zip(first, [("a", tree)])
    touch(tree)
    assert archives.tar_bytes([("a", tree)]) == packed
    archives.write_zip(second, [("a", tree)])
    assert first.read_bytes() == second.read_bytes()
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        modes = {entry.name: oct(entry.mode) for entry in archive}
        assert {entry.uid for entry in archive} == {0}
    assert modes == {
        "a": "0o755",
        "a/inner": "0o755",
        "a/inner/text": "0o644",
        "a/program": "0o755",
    }
    assert sorted(zipfile.ZipFile(first).namelist()) == ["a/inner/text", "a/program"]


def test_an_image_names_its_blobs_by_their_content(tree, tmp_path):
    first, second = tmp_path / "first.tar", tmp_path / "second.tar"
    image.write(first, "1.2.3", tree / "program", tree, [tree / "inner/text"], "arm64")
    touch(tree)
    image.write(second, "1.2.3", tree / "program", tree, [tree / "inner/text"], "arm64")
    assert first.read_bytes() == second.read_bytes()
    with tarfile.open(first) as archive:
        blobs = {m.name: archive.extractfile(m).read() for m in archive if m.isfile()}

    def blob(described):
        data = blobs["blobs/sha256/" + described["digest"].removeprefix("sha256:")]
        assert len(data) == described["size"]
        assert f"sha256:{hashlib.sha256(data).hexdigest()}" == described["digest"]
        return data

    (described,) = json.loads(blobs["index.json"])["manifests"]
    manifest = json.loads(blob(described))
    config = json.loads(blob(manifest["config"]))
    assert config["architecture"] == "arm64"
    assert config["config"]["User"] == "65534"
    names = {}
    for layer, diff in zip(manifest["layers"], config["rootfs"]["diff_ids"], strict=True):
        data = gzip.decompress(blob(layer))
        assert f"sha256:{hashlib.sha256(data).hexdigest()}" == diff
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            names |= {entry.name: entry.mode for entry in archive}
    assert names["tmp"] == 0o1777
    assert names["belljar"] == 0o755
    assert {"bundle/inner/text", "text"} <= set(names)


def test_npm_packages_name_each_other(tree, tmp_path):
    npm.main(
        str(tmp_path / "npm"), "1.2.3", str(tree / "inner/text"), f"x86_64-linux={tree / 'program'}"
    )
    root = json.loads((tmp_path / "npm/belljar/package.json").read_text())
    part = json.loads((tmp_path / "npm/belljar-linux-x64/package.json").read_text())
    assert root["optionalDependencies"] == {part["name"]: "1.2.3"} == {"belljar-linux-x64": "1.2.3"}
    assert root["version"] == part["version"] == "1.2.3"
    assert "private" not in root
    assert (part["os"], part["cpu"]) == (["linux"], ["x64"])
    loader = (tmp_path / "npm/belljar/lib/native.js").read_text()
    assert "belljar-${process.platform}-${process.arch}" in loader
    for name in part["files"]:
        assert (tmp_path / "npm/belljar-linux-x64" / name).exists()
    assert "](" not in (tmp_path / "npm/belljar/README.md").read_text()
    for name in root["files"]:
        assert (tmp_path / "npm/belljar" / name).exists()


def test_an_unknown_target_is_refused():
    script = Path(__file__).parents[1] / "release"
    told = subprocess.run([script, "package", "z80-cpm"], capture_output=True, text=True)
    assert told.returncode == 2
    assert "there is no target z80-cpm" in told.stderr


RELEASE = Path(__file__).parents[1] / "release"


@pytest.fixture
def release(tmp_path):
    """Runs the script with folders of its own for parts and for the result."""
    folders = {
        "BELLJAR_DIST": tmp_path / "dist",
        "BELLJAR_RELEASE_PARTS": tmp_path / "parts",
        "BELLJAR_RELEASE_WORK": tmp_path / "work",
    }

    def run(*words):
        env = os.environ | {name: str(path) for name, path in folders.items()}
        return subprocess.run([RELEASE, *words], capture_output=True, text=True, env=env)

    return run


def test_a_part_of_another_commit_is_refused(release, tmp_path):
    program = tmp_path / "parts/x86_64-windows/belljar.exe"
    missing = release("step", "part", "x86_64-windows", "belljar.exe")
    assert (missing.returncode, "was not compiled" in missing.stderr) == (3, True)
    program.parent.mkdir(parents=True)
    program.write_text("a program")
    stamp = program.with_name("belljar.exe.commit")
    for text in (None, "0" * 40 + "\n"):
        if text:
            stamp.write_text(text)
        told = release("step", "part", "x86_64-windows", "belljar.exe")
        assert (told.returncode, "is not of the commit" in told.stderr) == (1, True)
    made = tmp_path / "made.exe"
    program_of_windows = (Path(pip.__file__).parent / "_vendor/distlib/t64.exe").read_bytes()
    made.write_bytes(program_of_windows + b"GLIBC_2.2.5 GLIBC_2.28")
    assert release("step", "checked", made).returncode == 0
    assert release("step", "keep", "x86_64-windows", "belljar.exe", made).returncode == 0
    assert release("step", "part", "x86_64-windows", "belljar.exe").stdout == f"{program}\n"
    foreign = program_of_windows.replace(b"SHLWAPI.dll", b"libgcc1.dll")
    for content, why in (
        (program_of_windows + b"GLIBC_2.3 GLIBC_2.29", "newer"),
        (program_of_windows + f"from {RELEASE}".encode(), "names"),
        (foreign, "needs libgcc1"),
    ):
        made.write_bytes(content)
        told = release("step", "checked", made)
        assert (told.returncode, why in told.stderr) == (1, True)


def test_a_folder_that_is_no_release_is_kept(release, tmp_path):
    kept = tmp_path / "dist/thesis.txt"
    kept.parent.mkdir()
    kept.write_text("text")
    told = release("package", "x86_64-windows")
    assert (told.returncode, "is no release" in told.stderr) == (2, True)
    assert kept.exists()


def test_missed_and_failed_steps_have_a_status(release):
    told = release("check")
    assert told.returncode == 1
    assert "=== FAILED: check_sums" in told.stderr
    assert "=== NOT DONE: check_deb" in told.stderr
