"""Piston: two of its Python clients, and its own requests."""

import asyncio

import httpx
import pyston
import pytest
from ultra_piston import File, PistonClient
from ultra_piston.errors import BadRequestError


@pytest.fixture
def client(server):
    return PistonClient(api_key=server.key, base_url=f"{server.url}/api/v2", rate_limit=0)


@pytest.fixture
def execute(server):
    """Sends a request as it is, and gives the status and the answer."""

    def send(**body):
        headers = {"Authorization": server.key}
        url = f"{server.url}/api/v2/execute"
        response = httpx.post(url, json=body, headers=headers, timeout=60)
        return response.status_code, response.json()

    return send


def python(code, **more):
    return {"language": "python", "version": "*", "files": [{"content": code}], **more}


def test_ultra_piston_runs_a_program(client):
    answer = client.post_execute("python3", "3.x", File(name="main.py", content="print(6 * 7)"))
    assert (answer.language, answer.run.stdout, answer.run.code) == ("python", "42\n", 0)
    assert answer.version == client.get_runtimes()[0].version


def test_ultra_piston_is_told_what_it_did_wrong(client):
    with pytest.raises(BadRequestError):
        client.post_execute("brainfuck", "*", File(content="+"))


def test_pyston_runs_a_program(server):
    async def run():
        client = pyston.PystonClient(server.key, f"{server.url}/api/v2/piston/")
        try:
            assert await client.languages() == {"python"}
            return await client.execute("python", [pyston.File("print(input())")], stdin="hello")
        finally:
            await client.close_session()

    assert str(asyncio.run(run())) == "hello\n"


def test_the_first_text_file_is_the_program_and_the_others_are_there(execute):
    files = [
        {"name": "data.bin", "content": "AAH/", "encoding": "base64"},
        {"name": "hex.bin", "content": "00ff", "encoding": "hex"},
        {"name": "main.py", "content": "import helper\nhelper.show()"},
        {
            "name": "helper.py",
            "content": "def show():\n    for name in NAMES: print(open(name, 'rb').read())\n"
            "NAMES = ['data.bin', 'hex.bin']",
        },
    ]
    status, answer = execute(language="py", version="^3.10.0", files=files)
    assert status == 200
    assert answer["run"]["stdout"] == "b'\\x00\\x01\\xff'\nb'\\x00\\xff'\n"


def test_arguments_and_standard_input_arrive(execute):
    code = "import sys\nprint(sys.argv[1:], sys.stdin.read())"
    _, answer = execute(**python(code, args=["a", "b c"], stdin="text"))
    assert answer["run"]["output"] == "['a', 'b c'] text\n\n"


@pytest.mark.parametrize(
    ("code", "status", "exit_code", "signal"),
    [
        ("print(1)", None, 0, None),
        ("1 / 0", "RE", 1, None),
        ("x = (", "RE", 1, None),
        ("import sys; sys.exit(7)", "RE", 7, None),
        ("while True: pass", "TO", None, "SIGKILL"),
        ("x = bytearray(1 << 30)", "SG", None, "SIGKILL"),
        ("import os; os.abort()", "SG", None, "SIGABRT"),
        ("while True: print('x' * 100000)", "OL", None, "SIGKILL"),
    ],
)
def test_how_a_program_ended_is_told_as_piston_does(execute, code, status, exit_code, signal):
    _, answer = execute(**python(code, run_timeout=1000))
    run = answer["run"]
    assert (run["status"], run["code"], run["signal"]) == (status, exit_code, signal), run[
        "message"
    ]
    assert (run["message"] is None) == (status is None)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "language is required as a string"),
        (python("1", version=None), "version is required as a string"),
        (python("1", version="2.7"), "python-2.7 runtime is unknown"),
        (python("1", language="rust"), "rust-* runtime is unknown"),
        (python(3), "files[0].content is required as a string"),
        (python("1", run_timeout="3"), "If specified, run_timeout must be a number"),
    ],
)
def test_what_is_wrong_with_a_request_is_told_in_pistons_words(execute, body, message):
    assert execute(**body) == (400, {"message": message})


def test_a_key_is_needed_to_run_but_not_to_look(server):
    assert httpx.get(f"{server.url}/api/v2/runtimes").status_code == 200
    response = httpx.post(f"{server.url}/api/v2/execute", json=python("1"))
    assert response.status_code == 401
    assert "key" in response.json()["message"]
