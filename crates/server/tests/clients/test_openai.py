"""OpenAI's containers, with its unmodified client."""

import asyncio
import base64
import io
import os
import re
import shutil
import subprocess
from pathlib import Path

import httpx
import openai
import pytest
from conftest import COMMAND, start
from openai.types.responses import ResponseCodeInterpreterToolCall

PNG = b"\x89PNG"
JAVASCRIPT = Path(__file__).parent / "js" / "openai"


@pytest.fixture(scope="module", params=["one process", "accounts"])
def place(request):
    more = ["--isolate", "accounts"] if request.param == "accounts" else []
    started = start("--faces", "v1,openai", *more)
    yield started
    assert started.stop() == 0


@pytest.fixture
def client(place):
    with openai.OpenAI(base_url=f"{place.url}/v1", api_key=place.key) as client:
        yield client
        for container in client.containers.list(limit=2):
            client.containers.delete(container.id)
        assert not client.containers.list().data


def run(client, container, code):
    """Runs the code of a call as a program with its own model does."""
    return client.post(
        f"/containers/{container.id}/code_interpreter_calls",
        body={"code": code},
        cast_to=ResponseCodeInterpreterToolCall,
    )


def test_a_container_lives_until_it_is_deleted(client):
    made = client.containers.create(
        name="my container",
        expires_after={"anchor": "last_active_at", "minutes": 7},
        memory_limit="1g",
    )
    assert (made.name, made.object, made.status) == ("my container", "container", "running")
    assert (made.expires_after.anchor, made.expires_after.minutes) == ("last_active_at", 7)
    assert made.memory_limit == "1g" and made.network_policy.type == "disabled"
    assert made.created_at <= made.last_active_at
    shown = client.containers.retrieve(made.id)
    assert (shown.id, shown.name, shown.created_at) == (made.id, made.name, made.created_at)
    assert client.containers.delete(made.id) is None
    with pytest.raises(openai.NotFoundError) as gone:
        client.containers.retrieve(made.id)
    assert gone.value.code == "session.not_found"
    assert gone.value.type == "invalid_request_error"


def test_files_are_uploaded_listed_read_and_deleted(client):
    container = client.containers.create(name="files")
    content = b"a,b\n1,2\n" * 50_000
    made = client.containers.files.create(container.id, file=("data/in put.csv", content))
    assert (made.path, made.source) == ("/mnt/data/data/in put.csv", "user")
    assert (made.bytes, made.container_id) == (len(content), container.id)
    call = run(client, container, "print(open('data/in put.csv').read(4)); open('out', 'w').write('é')")
    assert call.outputs[0].logs == "a,b\n\n1\n"
    files = {file.path: file for file in client.containers.files.list(container.id)}
    assert {path: file.source for path, file in files.items()} == {
        "/mnt/data/data/in put.csv": "user",
        "/mnt/data/out": "assistant",
    }
    out = files["/mnt/data/out"]
    fetch = client.containers.files.content.retrieve
    assert fetch(out.id, container_id=container.id).read() == "é".encode()
    assert fetch(made.id, container_id=container.id).read() == content
    shown = client.containers.files.retrieve(made.id, container_id=container.id)
    assert shown.bytes == len(content)
    other = client.containers.create(name="other", file_ids=[out.id])
    copied = client.containers.files.create(other.id, file_id=made.id)
    assert fetch(copied.id, container_id=other.id).read() == content
    assert run(client, other, "open('out').read()").outputs[0].logs == "'é'\n"
    client.containers.files.delete(made.id, container_id=container.id)
    with pytest.raises(openai.NotFoundError):
        client.containers.files.retrieve(made.id, container_id=container.id)
    big = io.BytesIO(bytes(5 << 20))
    big.name = "big.bin"
    assert client.containers.files.create(container.id, file=big).bytes == 5 << 20


def test_lists_come_in_pages(client):
    made = [client.containers.create(name=f"c{n % 2}") for n in range(5)]
    ids = [container.id for container in made]
    assert [one.id for one in client.containers.list(limit=2)] == ids[::-1]
    assert [one.id for one in client.containers.list(limit=2, order="asc")] == ids
    first = client.containers.list(limit=3, order="asc")
    assert first.has_more and len(first.data) == 3
    assert not first.get_next_page().has_more
    for n in range(7):
        client.containers.files.create(made[0].id, file=(f"f{n}", b"x"))
    names = [file.path for file in client.containers.files.list(made[0].id, limit=3, order="asc")]
    assert sorted(names) == [f"/mnt/data/f{n}" for n in range(7)]
    for file in client.containers.files.list(made[0].id, limit=2):
        client.containers.files.delete(file.id, container_id=made[0].id)
    assert not client.containers.files.list(made[0].id).data


def test_code_runs_as_in_a_notebook(client):
    container = client.containers.create(name="code")
    call = run(client, container, "x = 20\nprint('a')\nx + 22")
    assert (call.type, call.status, call.code) == (
        "code_interpreter_call", "completed", "x = 20\nprint('a')\nx + 22",
    )  # fmt: skip
    assert (call.container_id, call.outputs[0].logs) == (container.id, "a\n42\n")
    failed = run(client, container, "x / 0")
    assert failed.status == "completed" and "ZeroDivisionError" in failed.outputs[0].logs
    assert run(client, container, "None").outputs == []
    plot = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.savefig('a.png')\nplt.show()"
    image = run(client, container, plot).outputs[-1]
    assert image.type == "image"
    assert base64.b64decode(image.url.removeprefix("data:image/png;base64,")).startswith(PNG)


def test_a_container_is_a_session(client, place):
    container = client.containers.create(name="session")
    run(client, container, "kept = 'here'")
    answer = httpx.post(
        f"{place.url}/v1/sessions/{container.id}/runs",
        json={"code": "print(kept)\nimport os\nprint(os.getcwd())"},
        headers=place.headers,
        timeout=60,
    )
    assert answer.json()["stdout"] == "here\n/mnt/data\n"


def test_the_asynchronous_client(place):
    async def work():
        async with openai.AsyncOpenAI(base_url=f"{place.url}/v1", api_key=place.key) as client:
            container = await client.containers.create(name="async")
            made = await client.containers.files.create(container.id, file=("a", b"1"))
            listed = [file.id async for file in client.containers.files.list(container.id)]
            content = client.containers.files.content
            read = await content.retrieve(made.id, container_id=container.id)
            await client.containers.delete(container.id)
            return listed == [made.id], read.content

    assert asyncio.run(work()) == (True, b"1")


def test_what_is_wrong_is_said_in_openais_way(client, place):
    stranger = openai.OpenAI(base_url=f"{place.url}/v1", api_key="wrong", max_retries=0)
    with pytest.raises(openai.AuthenticationError):
        stranger.containers.list()
    with pytest.raises(openai.BadRequestError, match="network"):
        client.containers.create(
            name="a", network_policy={"type": "allowlist", "allowed_domains": ["example.org"]}
        )
    container = client.containers.create(name="a")
    for name in ["../a", "/etc/passwd", "a/../../b"]:
        with pytest.raises(openai.BadRequestError):
            client.containers.files.create(container.id, file=(name, b"x"))
    with pytest.raises(openai.NotFoundError, match="no /v1/files"):
        client.containers.files.create(container.id, file_id="file-abc123")
    form = {"file_id": (None, "cfile_x")}
    unknown = httpx.post(
        f"{place.url}/v1/containers/{container.id}/files", files=form, headers=place.headers
    )
    assert unknown.status_code == 404
    empty = httpx.post(
        f"{place.url}/v1/containers/{container.id}/files",
        files={"other": (None, "x")},
        headers=place.headers,
    )
    assert empty.status_code == 400 and "no file" in empty.json()["error"]["message"]


def test_accounts_have_their_own(tmp_path):
    file = tmp_path / "keys.toml"
    made = [
        subprocess.run(
            [COMMAND, "key", name, "--keys", str(file)], check=True, capture_output=True, text=True
        ).stdout
        for name in ("one", "two")
    ]
    one, two = (re.search(r"belljar_[0-9a-f]{64}", text).group() for text in made)
    for more in ([], ["--isolate", "accounts"]):
        server = start("--faces", "v1,openai", "--keys", str(file), *more)
        mine, theirs = (
            openai.OpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0)
            for key in (one, two)
        )
        container = mine.containers.create(name="mine")
        secret = mine.containers.files.create(container.id, file=("a", b"secret"))
        assert theirs.containers.list().data == []
        other = theirs.containers.create(name="other")
        for steal in (
            lambda: theirs.containers.retrieve(container.id),
            lambda: theirs.containers.delete(container.id),
            lambda: theirs.containers.files.list(container.id),
            lambda: theirs.containers.files.create(other.id, file_id=secret.id),
            lambda: theirs.containers.files.content.retrieve(secret.id, container_id=container.id),
            lambda: theirs.containers.files.content.retrieve(secret.id, container_id=other.id),
            lambda: run(theirs, container, "1"),
        ):
            with pytest.raises(openai.NotFoundError):
                steal()
        assert server.stop() == 0


@pytest.mark.skipif(
    shutil.which("node") is None or not (JAVASCRIPT / "node_modules").exists(),
    reason="node, or its packages (npm ci in js/openai), are not there",
)
def test_the_client_for_javascript(place):
    environment = {"OPENAI_BASE_URL": f"{place.url}/v1", "OPENAI_API_KEY": place.key}
    subprocess.run(["npm", "test"], cwd=JAVASCRIPT, env={**os.environ, **environment}, check=True)
