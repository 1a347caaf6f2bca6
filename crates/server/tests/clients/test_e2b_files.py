"""Files and commands of E2B's sandboxes, with E2B's own SDK."""

import datetime
import io

import httpx
import pytest
from e2b import (
    CommandExitException,
    FileNotFoundException,
    FileType,
    InvalidArgumentException,
    SandboxException,
)

from e2b_support import environment, sandbox  # noqa: F401


def test_files(sandbox):
    files = sandbox.files
    info = files.write("a.txt", "Ada")
    assert (info.name, info.path) == ("a.txt", "/home/user/a.txt")
    assert files.read("/home/user/a.txt") == "Ada"
    assert sandbox.run_code("open('a.txt').read()").text == "Ada"
    sandbox.run_code("open('b.bin', 'wb').write(bytes(range(256))); None")
    assert files.read("b.bin", format="bytes") == bytes(range(256))
    assert b"".join(files.read("b.bin", format="stream")) == bytes(range(256))
    assert files.exists("a.txt") and not files.exists("c.txt")
    with pytest.raises(FileNotFoundException, match="does not exist"):
        files.read("c.txt")
    with pytest.raises(FileNotFoundException):
        files.get_info("c.txt")
    files.write("a.txt", "")
    assert files.read("a.txt") == ""


def test_kinds_of_upload(sandbox):
    files = sandbox.files
    content = b"0123456789" * 300_000
    files.write("one/two/buffered", content)
    files.write("streamed", io.BytesIO(content))
    files.write("octets", content, use_octet_stream=True)
    files.write("packed", content, gzip=True)
    for name in ("one/two/buffered", "streamed", "octets", "packed"):
        assert files.read(name, format="bytes") == content, name
        assert files.read(name, format="bytes", gzip=True) == content, name
    written = files.write_files(
        [{"path": "m/ž 1", "data": "1"}, {"path": "/home/user/m/2", "data": b"2"}]
    )
    assert [one.path for one in written] == ["/home/user/m/ž 1", "/home/user/m/2"]
    assert files.read("m/ž 1") == "1"


def test_file_system(sandbox):
    files = sandbox.files
    assert files.make_dir("d/e") is True
    assert files.make_dir("d/e") is False
    files.write("d/e/f.txt", "12345")
    files.write("d/g", "1")
    assert [one.name for one in files.list("d")] == ["e", "g"]
    deep = files.list("/home/user", depth=3)
    assert [one.path for one in deep] == [
        f"/home/user/{path}" for path in ("d", "d/e", "d/e/f.txt", "d/g")
    ]
    info = files.get_info("d/e/f.txt")
    assert (info.name, info.size, info.type, info.permissions) == (
        "f.txt",
        5,
        FileType.FILE,
        "-rw-r--r--",
    )
    assert (
        abs(
            (
                info.modified_time.replace(tzinfo=datetime.timezone.utc)
                - datetime.datetime.now(datetime.timezone.utc)
            ).total_seconds()
        )
        < 60
    )
    assert files.get_info("d").type == FileType.DIR
    moved = files.rename("d/e/f.txt", "new/place.txt")
    assert moved.path == "/home/user/new/place.txt"
    with pytest.raises(FileNotFoundException):
        files.rename("d/e/f.txt", "x")
    files.remove("d")
    assert [one.name for one in files.list(".")] == ["new"]
    with pytest.raises(FileNotFoundException):
        files.remove("d")
    with pytest.raises(FileNotFoundException):
        files.list("d")
    sandbox.run_code("import os; os.symlink('new', 'link')")
    assert files.get_info("link").type == FileType.SYMLINK


def test_paths_that_lead_out(sandbox):
    files = sandbox.files
    for path in ("/etc/passwd", "../../../etc/passwd", "/home/user/../../etc/passwd"):
        with pytest.raises(FileNotFoundException):
            files.read(path)
        with pytest.raises(InvalidArgumentException):
            files.write(path, "x")
        with pytest.raises(FileNotFoundException):
            files.list(path)
    sandbox.run_code(
        "import os; os.symlink('../../../../etc/passwd', 'out'); os.symlink('..', 'up')"
    )
    for path in ("out", "up/etc/passwd"):
        with pytest.raises(SandboxException):
            files.read(path)
        with pytest.raises(SandboxException):
            files.write(path, "x")


def test_signed_urls(sandbox):
    sandbox.files.write("a b.txt", "signed")
    url = sandbox.download_url("a b.txt", use_signature_expiration=60)
    response = httpx.get(url)
    assert response.content == b"signed"
    assert response.headers["content-type"] == "application/octet-stream"
    assert httpx.get(sandbox.download_url("a b.txt")).content == b"signed"
    assert (
        httpx.get(sandbox.download_url("a b.txt", use_signature_expiration=-10)).status_code == 401
    )
    assert httpx.get(url.replace("a%20b", "other")).status_code == 401
    assert httpx.get(url.replace("signature=v1_", "signature=v1_x")).status_code == 401
    upload = sandbox.upload_url("up.txt", use_signature_expiration=60)
    assert httpx.post(upload, files={"file": ("up.txt", b"up")}).status_code == 200
    assert httpx.get(upload).status_code == 401
    assert sandbox.files.read("up.txt") == "up"


def test_commands_that_need_no_process(sandbox):
    run = sandbox.commands.run
    sandbox.files.write(
        "s.py", "import sys\nprint('hi', sys.argv[1:], __name__)\nopen('made', 'w').write('m')"
    )
    assert run("python3 s.py 1 2").stdout == "hi ['1', '2'] __main__\n"
    assert sandbox.files.read("made") == "m"
    assert (
        run("python3 -c 'import os; print(os.environ[\"A\"], os.getcwd())'", envs={"A": "b"}).stdout
        == "b /home/user\n"
    )
    assert run("echo hello").stdout == "hello\n"
    assert run("ls").stdout.split() == ["made", "s.py"]
    assert run("cat made").stdout.strip() == "m"
    assert run("pwd").stdout == "/home/user\n"
    with pytest.raises(CommandExitException) as failed:
        run("pip install surely-not-there")
    assert failed.value.exit_code == 1
    assert "No matching distribution" in failed.value.stderr + failed.value.stdout
    with pytest.raises(CommandExitException) as failed:
        run("python3 -c 'import sys; print(1); sys.exit(7)'")
    assert (failed.value.exit_code, failed.value.stdout) == (7, "1\n")
    with pytest.raises(CommandExitException) as failed:
        run("python3 -c '1/0'")
    assert "ZeroDivisionError" in failed.value.stderr
    sandbox.run_code("x = 1")
    assert sandbox.run_code("x").text == "1"


def test_other_commands_are_refused(sandbox):
    for command in ("npm install", "ls | wc", "sleep 1 &", "git clone x"):
        with pytest.raises(SandboxException, match="no processes in this sandbox"):
            sandbox.commands.run(command)
    assert sandbox.commands.list() == []
    assert sandbox.commands.kill(99) is False
