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


def test_the_directory_of_root_is_the_same(sandbox):
    sandbox.files.write("/root/a", "1")
    assert (
        sandbox.run_code("open('/root/a').read(), open('/home/user/a').read()").text == "('1', '1')"
    )
    context = sandbox.create_code_context(cwd="/root")
    assert sandbox.run_code("import os; os.listdir()", context=context).text == "['a']"
    assert sandbox.commands.run("ls", cwd="/root").stdout.split() == ["a"]
    sandbox.run_code("open('/root/b', 'w').write('2'); None")
    assert [one.name for one in sandbox.files.list("/root")] == ["a", "b"]


def test_other_places_are_named_as_closed(sandbox):
    named = "/home/user, /root and /tmp"
    for path in ("/etc/passwd", "/", "/tmp/../var/x", "/tmpx"):
        with pytest.raises(FileNotFoundException, match=named):
            sandbox.files.read(path)
        with pytest.raises(InvalidArgumentException, match=named):
            sandbox.files.write(path, "1")
        with pytest.raises(SandboxException, match=named):
            sandbox.commands.run("ls", cwd=path)
    with pytest.raises(Exception, match="use /home/user, /root and /tmp"):
        sandbox.create_code_context(cwd="/etc")


def test_temporary_files(sandbox):
    files = sandbox.files
    info = files.write("/tmp/x", "1")
    assert (info.name, info.path) == ("x", "/tmp/x")
    assert files.read("/tmp/x") == "1"
    assert sandbox.run_code("open('/tmp/x').read()").text == "1"
    sandbox.run_code("open('/tmp/y', 'w').write('22'); None")
    assert files.read("/tmp/y") == "22"
    context = sandbox.create_code_context()
    assert sandbox.run_code("open('/tmp/y').read()", context=context).text == "22"
    assert [(one.name, one.path) for one in files.list("/tmp")] == [
        ("x", "/tmp/x"),
        ("y", "/tmp/y"),
    ]
    assert files.exists("/tmp/x") and not files.exists("/tmp/z") and not files.exists("/home/user/x")
    assert files.get_info("/tmp").name == "tmp"
    assert files.make_dir("/tmp/d/e") is True
    assert files.make_dir("/tmp/d/e") is False and files.make_dir("/tmp") is False
    # From one directory to another, and back.
    assert files.rename("/tmp/x", "/tmp/d/x").path == "/tmp/d/x"
    assert files.rename("/tmp/d/x", "made/x").path == "/home/user/made/x"
    assert files.rename("made", "/tmp/made").path == "/tmp/made"
    assert files.read("/tmp/made/x") == "1" and not files.exists("made")
    files.remove("/tmp/d")
    assert [one.path for one in files.list("/tmp", depth=2)] == [
        "/tmp/made",
        "/tmp/made/x",
        "/tmp/y",
    ]
    with pytest.raises(InvalidArgumentException):
        files.remove("/tmp")
    with pytest.raises(FileNotFoundException, match="'/tmp/d' does not exist"):
        files.list("/tmp/d")
    content = b"0123456789" * 300_000
    files.write("/tmp/packed", content, gzip=True)
    written = files.write_files([{"path": "/tmp/m/1", "data": "1"}, {"path": "m", "data": "2"}])
    assert [one.path for one in written] == ["/tmp/m/1", "/home/user/m"]
    assert files.read("/tmp/packed", format="bytes") == content


def test_temporary_directory_as_the_current_one(sandbox):
    sandbox.files.write("/tmp/a.py", "import os; print(os.getcwd(), __file__)")
    assert sandbox.commands.run("python a.py", cwd="/tmp").stdout == "/tmp a.py\n"
    assert sandbox.commands.run("ls", cwd="/tmp").stdout == "a.py\n"
    sandbox.commands.run("python -c \"open('b', 'w').write('b')\"", cwd="/tmp/new")
    assert sandbox.files.read("/tmp/new/b") == "b"
    context = sandbox.create_code_context(cwd="/tmp/deep/er")
    assert context.cwd == "/tmp/deep/er"
    code = "import os; open('c', 'w').write('c'); os.getcwd()"
    assert sandbox.run_code(code, context=context).text == "/tmp/deep/er"
    assert sandbox.files.read("/tmp/deep/er/c") == "c"
    sandbox.files.write("/tmp/deep/er/helper.py", "x = 7")
    assert sandbox.run_code("import helper; helper.x", context=context).text == "7"
    assert sandbox.run_code("os.getcwd()", context=context).text == "/tmp/deep/er"


def test_temporary_files_of_a_command_are_given_to_a_sandbox_that_has_changed(sandbox):
    waits = (
        "import os, time\nopen('/tmp/there', 'w').write('t')\nopen('/tmp/a\\\\b', 'w').write('b')\n"
        "print(os.listdir('/tmp'), flush=True)\ntime.sleep(1.5)"
    )
    sandbox.files.write("wait.py", waits)
    command = sandbox.commands.run("python wait.py", background=True)
    # It has got its files by then.
    seen, _, _ = next(iter(command))
    sandbox.files.write("/tmp/meanwhile", "m")
    command.wait()
    assert "meanwhile" not in seen
    names = [one.name for one in sandbox.files.list("/tmp")]
    assert names == ["a\\b", "meanwhile", "there"]


def test_temporary_files_are_watched(sandbox):
    sandbox.files.make_dir("/tmp/watched")
    watcher = sandbox.files.watch_dir("/tmp/watched", recursive=True)
    sandbox.files.write("/tmp/watched/in/a", "1")
    sandbox.files.write("/tmp/elsewhere", "1")
    events = [(event.name, event.type.name) for event in watcher.get_new_events()]
    assert events == [("in", "CREATE"), ("in/a", "CREATE"), ("in/a", "WRITE")]
    watcher.stop()


def test_temporary_files_by_url(sandbox):
    answer = httpx.post(
        sandbox.upload_url("/tmp/up", use_signature_expiration=60), files={"file": ("up", b"up")}
    )
    assert (answer.status_code, answer.json()[0]["path"]) == (200, "/tmp/up")
    url = sandbox.download_url("/tmp/up", use_signature_expiration=60)
    assert httpx.get(url).content == b"up"
    other = url.replace("%2Fup", "%2Fother").replace("/up&", "/other&").replace("tmp/up", "tmp/other")
    assert other != url
    assert httpx.get(other).status_code in (401, 403)


def test_temporary_files_are_kept_and_counted(sandbox):
    from e2b_code_interpreter import Sandbox

    sandbox.files.write("/tmp/kept", "k")
    sandbox.pause()
    sandbox.connect()
    assert sandbox.files.read("/tmp/kept") == "k"
    snapshot = sandbox.create_snapshot()
    other = Sandbox.create(snapshot.snapshot_id, timeout=60)
    try:
        assert other.files.read("/tmp/kept") == "k"
        other.files.write("/tmp/kept", "2")
        assert sandbox.files.read("/tmp/kept") == "k"
    finally:
        other.kill()
    # One file of 20,000 is there already.
    made = "import os\nfor n in range(19_990): open(f'/tmp/f{n}', 'w').close()"
    assert sandbox.run_code(made).error is None
    with pytest.raises(SandboxException):
        sandbox.files.write_files([{"path": f"/tmp/g{n}", "data": ""} for n in range(20)])


def test_other_commands_are_refused(sandbox):
    for command in ("npm install", "ls | wc", "sleep 1 &", "git clone x"):
        with pytest.raises(SandboxException, match="processes cannot run in this sandbox"):
            sandbox.commands.run(command)
    assert sandbox.commands.list() == []
    assert sandbox.commands.kill(99) is False


def test_a_saved_image_is_a_file_and_no_result(sandbox):
    """As in E2B's own interpreter, where a value is shown and what `save` returns is `None`."""
    made = "from PIL import Image\nimage = Image.new('RGB', (2, 2))\nimage.save('image.png')"
    execution = sandbox.run_code(made)
    assert (execution.error, execution.results) == (None, [])
    assert sandbox.files.read("image.png", format="bytes").startswith(b"\x89PNG")
    [shown] = sandbox.run_code("image").results
    assert shown.is_main_result and shown.png
    plot = "import matplotlib.pyplot as plt\nfigure, axes = plt.subplots()\naxes.plot([1, 2])\n"
    saved = sandbox.run_code(plot + "figure.savefig('plot.png')\nplt.close(figure)")
    assert (saved.error, saved.results) == (None, [])
    assert sandbox.files.exists("plot.png")
    # A figure that is still open at the end is shown.
    [shown] = sandbox.run_code(plot + "figure.savefig('plot.png')").results
    assert not shown.is_main_result and shown.png
