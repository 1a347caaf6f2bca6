"""Jupyter's REST and WebSocket with the clients that use them: Open WebUI's requests, AutoGen,
smolagents, jupyter-server's gateway."""

import asyncio
import json
import time
import uuid
from contextlib import closing

import httpx
import nbformat
import pytest
import websocket
import websockets
from jupyter_server.services.kernels.connection.base import (
    deserialize_msg_from_ws_v1,
    serialize_msg_to_ws_v1,
)

from jupyter_support import TOKEN, jupyter_server, wait_until

V1 = "v1.kernel.websocket.jupyter.org"


@pytest.fixture
def http(server):
    headers = {"Authorization": f"token {server.key}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60) as client:
        yield client


@pytest.fixture
def kernel(http):
    model = http.post("/api/kernels").json()
    yield model["id"]
    http.delete(f"/api/kernels/{model['id']}")


def channels(server, kernel, **asked):
    """A WebSocket to a kernel, as simple clients open it."""
    query = "&".join(f"{name}={value}" for name, value in {"token": server.key, **asked}.items())
    url = f"ws://{server.host}/api/kernels/{kernel}/channels?{query}"
    return closing(websocket.create_connection(url, timeout=30))


def ask(ws, kind, content, channel="shell"):
    header = {
        "msg_id": uuid.uuid4().hex,
        "msg_type": kind,
        "date": "",
        "username": "",
        "session": "s",
    }
    message = {"header": header, "parent_header": {}, "metadata": {}, "content": content}
    ws.send(json.dumps({**message, "channel": channel}))
    return header["msg_id"]


def told(ws, asked):
    """All that belongs to a request, until the kernel is idle again and has answered."""
    messages, left = [], {"idle", "reply"}
    while left:
        message = json.loads(ws.recv())
        if message["parent_header"].get("msg_id") != asked:
            continue
        messages.append(message)
        if message["msg_type"].endswith("_reply"):
            left.discard("reply")
        if message["content"].get("execution_state") == "idle":
            left.discard("idle")
    return messages


def execute(ws, code, **content):
    return told(ws, ask(ws, "execute_request", {"code": code, **content}))


def text_of(messages):
    return "".join(m["content"]["text"] for m in messages if m["msg_type"] == "stream")


def test_who_has_no_token_is_refused(server):
    for path in ["/api/status", "/api/kernels", "/api/kernelspecs", "/api/sessions", "/api/me"]:
        response = httpx.get(server.url + path)
        assert response.status_code == 403
        assert response.json()["reason"] is None
    with pytest.raises(websocket.WebSocketBadStatusException) as refused:
        websocket.create_connection(f"ws://{server.host}/api/kernels/{uuid.uuid4()}/channels")
    assert refused.value.status_code == 403


def test_pages_of_other_sites_are_kept_out(open_server):
    """Without keys, a request may still come from a foreign page in a browser."""
    started = httpx.post(f"{open_server.url}/api/kernels", headers={"Origin": "https://a.example"})
    assert started.status_code == 403
    kernel = httpx.post(f"{open_server.url}/api/kernels").json()["id"]
    url = f"ws://{open_server.host}/api/kernels/{kernel}/channels"
    with pytest.raises(websocket.WebSocketBadStatusException):
        websocket.create_connection(url, origin="https://a.example")
    with closing(websocket.create_connection(url, timeout=30)) as ws:
        assert text_of(execute(ws, "print(1)")) == "1\n"
    httpx.delete(f"{open_server.url}/api/kernels/{kernel}").raise_for_status()


@pytest.mark.parametrize("scheme", ["token", "Bearer", None])
def test_a_token_is_taken_in_three_ways(server, scheme):
    headers = {"Authorization": f"{scheme} {server.key}"} if scheme else {}
    query = {} if scheme else {"token": server.key}
    response = httpx.get(f"{server.url}/api/status", headers=headers, params=query)
    assert response.status_code == 200
    assert response.json().keys() == {"connections", "kernels", "last_activity", "started"}


def test_the_life_of_a_kernel(http):
    response = http.post("/api/kernels", json={"name": "belljar", "path": "a.ipynb"})
    assert response.status_code == 201
    model = response.json()
    assert response.headers["location"] == f"/api/kernels/{model['id']}"
    assert model["name"] == "belljar"
    path = f"/api/kernels/{model['id']}"
    assert http.get(path).json()["execution_state"] in ("starting", "idle")
    assert model["id"] in [one["id"] for one in http.get("/api/kernels").json()]
    assert http.post(f"{path}/interrupt").status_code == 204
    assert http.post(f"{path}/restart").status_code == 200
    assert http.delete(path).status_code == 204
    gone = http.get(path)
    assert gone.status_code == 404
    assert gone.json()["message"] == f"Kernel does not exist: {model['id']}"
    assert http.post("/api/kernels", json={"name": "ir"}).status_code == 404
    assert http.post("/api/kernels", content=b"{").status_code == 400


def test_kernelspecs_have_both_names_and_a_picture(http):
    specs = http.get("/api/kernelspecs").json()
    assert specs["default"] == "python3"
    assert specs["kernelspecs"].keys() == {"python3", "belljar"}
    picture = http.get(specs["kernelspecs"]["belljar"]["resources"]["logo-svg"])
    assert picture.headers["content-type"] == "image/svg+xml"
    assert http.get("/api/kernelspecs/ir").status_code == 404


def test_sessions_of_notebooks(http):
    asked = {"path": "a.ipynb", "name": "a", "type": "notebook", "kernel": {"name": "python3"}}
    model = http.post("/api/sessions", json=asked).json()
    assert model["notebook"] == {"path": "a.ipynb", "name": "a"}
    again = http.post("/api/sessions", json=asked).json()
    assert again["kernel"].pop("id") == model["kernel"]["id"]
    assert {**again, "kernel": None} == {**model, "kernel": None}
    path = f"/api/sessions/{model['id']}"
    assert http.patch(path, json={"path": "b.ipynb"}).json()["path"] == "b.ipynb"
    changed = http.patch(path, json={"kernel": {"name": "belljar"}}).json()
    assert changed["kernel"]["id"] != model["kernel"]["id"]
    assert http.get(f"/api/kernels/{model['kernel']['id']}").status_code == 404
    assert [one["id"] for one in http.get("/api/sessions").json()] == [model["id"]]
    assert http.delete(path).status_code == 204
    assert http.get("/api/kernels").json() == []
    assert http.post("/api/sessions", json={"path": "a"}).status_code == 400


def test_what_open_webui_asks(server):
    """The requests of its code_interpreter.py: no body, the token in the query, an empty date."""

    async def run(code):
        base, query = f"{server.url}/", {"token": server.key}
        async with httpx.AsyncClient(base_url=base, timeout=60) as client:
            response = await client.post("api/kernels", params=query)
            response.raise_for_status()
            kernel = response.json()["id"]
            url = f"{base.replace('http', 'ws', 1)}api/kernels/{kernel}/channels?token={server.key}"
            result = {"stdout": "", "stderr": "", "result": []}
            async with websockets.connect(url, additional_headers={}) as ws:
                header = {
                    "msg_id": uuid.uuid4().hex,
                    "msg_type": "execute_request",
                    "username": "user",
                    "session": uuid.uuid4().hex,
                    "date": "",
                    "version": "5.3",
                }
                content = {
                    "code": code,
                    "silent": False,
                    "store_history": True,
                    "user_expressions": {},
                    "allow_stdin": False,
                    "stop_on_error": True,
                }
                message = {
                    "header": header,
                    "parent_header": {},
                    "metadata": {},
                    "content": content,
                }
                await ws.send(json.dumps({**message, "channel": "shell"}))
                while True:
                    message = json.loads(await asyncio.wait_for(ws.recv(), 60))
                    if message["parent_header"].get("msg_id") != header["msg_id"]:
                        continue
                    content = message["content"]
                    match message["msg_type"]:
                        case "stream":
                            result[content["name"]] += content["text"]
                        case "execute_result" | "display_data":
                            data = content["data"]
                            result["result"].append(data.get("image/png") or data["text/plain"])
                        case "error":
                            result["stderr"] += "\n".join(content["traceback"])
                        case "status" if content["execution_state"] == "idle":
                            break
            (await client.delete(f"api/kernels/{kernel}", params=query)).raise_for_status()
            return result

    code = "import sys, matplotlib.pyplot as plt\nprint('out')\nprint('err', file=sys.stderr)\n"
    result = asyncio.run(run(code + "plt.plot([1, 2]); plt.show()\n6 * 7"))
    assert (result["stdout"], result["stderr"]) == ("out\n", "err\n")
    picture, value = result["result"]
    assert picture.startswith("iVBORw0KGgo")
    assert value == "42"
    assert asyncio.run(run("1 / 0"))["stderr"].endswith("ZeroDivisionError: division by zero")


def test_autogen_executes(server):
    from autogen_core import CancellationToken
    from autogen_core.code_executor import CodeBlock
    from autogen_ext.code_executors.docker_jupyter import DockerJupyterCodeExecutor
    from autogen_ext.code_executors.docker_jupyter._jupyter_server import JupyterConnectionInfo

    connection = JupyterConnectionInfo(
        host="127.0.0.1", use_https=False, port=server.port, token=server.key
    )

    async def execute():
        async with DockerJupyterCodeExecutor(jupyter_server=connection, timeout=60) as executor:
            results = []
            for code in ["x = 20", "print(x + 1)", "x / 0"]:
                block = CodeBlock(code=code, language="python")
                results.append(await executor.execute_code_blocks([block], CancellationToken()))
            return results

    _, printed, failed = asyncio.run(execute())
    assert (printed.exit_code, printed.output.strip()) == (0, "21")
    assert failed.exit_code == 1
    assert "ZeroDivisionError: division by zero" in failed.output


def test_smolagents_executes(server):
    """With what its DockerExecutor does once the container is there."""
    from smolagents import remote_executors
    from smolagents.monitoring import AgentLogger
    from smolagents.utils import AgentError

    log = AgentLogger()
    url = f"{server.url}/api/kernels?token={server.key}"
    kernel = remote_executors._create_kernel_http(url, log)
    with channels(server, kernel) as ws:
        output = remote_executors._websocket_run_code_raise_errors("print('a')\n1 + 1", ws, log)
        assert (output.logs, output.output) == ("a\n", "2")
        with pytest.raises(AgentError, match="ZeroDivisionError"):
            remote_executors._websocket_run_code_raise_errors("1 / 0", ws, log)
    httpx.delete(f"{server.url}/api/kernels/{kernel}?token={server.key}").raise_for_status()


def test_jupyter_uses_it_as_a_gateway(server, tmp_path):
    """`jupyter server --gateway-url`, as for JupyterLab."""
    options = {"GatewayClient.url": server.url, "GatewayClient.auth_token": server.key}
    with (
        jupyter_server(tmp_path, **options) as url,
        httpx.Client(base_url=url, params={"token": TOKEN}) as client,
    ):
        assert "belljar" in client.get("/api/kernelspecs").json()["kernelspecs"]
        nbformat.write(nbformat.v4.new_notebook(), tmp_path / "a.ipynb")
        asked = {
            "path": "a.ipynb",
            "name": "",
            "type": "notebook",
            "kernel": {"name": "belljar"},
        }
        session = client.post("/api/sessions", json=asked, timeout=60).json()
        kernel = session["kernel"]["id"]
        channels = f"{url.replace('http', 'ws')}/api/kernels/{kernel}/channels"
        opened = websocket.create_connection(f"{channels}?token={TOKEN}&session_id=s", timeout=30)
        with closing(opened) as ws:
            assert text_of(execute(ws, "print('through both')")) == "through both\n"
            kinds = {m["msg_type"] for m in told(ws, ask(ws, "kernel_info_request", {}))}
            assert "kernel_info_reply" in kinds
        assert client.delete(f"/api/sessions/{session['id']}").status_code == 204


def test_the_newer_protocol(server, kernel):
    url = f"ws://{server.host}/api/kernels/{kernel}/channels?token={server.key}"
    with closing(websocket.create_connection(url, subprotocols=[V1], timeout=30)) as ws:
        assert ws.getsubprotocol() == V1
        header = {"msg_id": "m", "msg_type": "execute_request", "session": "s", "date": ""}
        parts = {"header": header, "parent_header": {}, "metadata": {}, "content": {"code": "5"}}
        ws.send_binary(
            serialize_msg_to_ws_v1(parts, "shell", lambda part: json.dumps(part).encode())
        )
        kinds, value = [], None
        while kinds[-1:] != ["idle"]:
            channel, message = deserialize_msg_from_ws_v1(ws.recv())
            header, parent, _, content = map(json.loads, message)
            if parent.get("msg_id") != "m":
                continue
            kinds.append(content.get("execution_state", header["msg_type"]))
            if header["msg_type"] == "execute_result":
                assert channel == "iopub"
                value = content["data"]["text/plain"]
        assert value == "5"
        assert kinds == ["busy", "execute_input", "execute_result", "execute_reply", "idle"]


def test_a_kernel_outlives_its_client_and_keeps_what_it_said(server, kernel):
    with channels(server, kernel, session_id="s") as ws:
        asked = ask(ws, "execute_request", {"code": "import time; time.sleep(1); print('late')"})
        while json.loads(ws.recv())["msg_type"] != "execute_input":
            pass
    time.sleep(1.5)
    with channels(server, kernel, session_id="s") as ws:
        assert text_of(told(ws, asked)) == "late\n"
    with channels(server, kernel, session_id="other") as ws:
        assert text_of(execute(ws, "print(time.__name__)")) == "time\n"


def test_input_and_interrupts(server, http, kernel):
    with channels(server, kernel) as ws:
        asked = ask(ws, "execute_request", {"code": "print(input('? '))", "allow_stdin": True})
        while (message := json.loads(ws.recv()))["msg_type"] != "input_request":
            pass
        assert (message["channel"], message["content"]["prompt"]) == ("stdin", "? ")
        ask(ws, "input_reply", {"value": "yes"}, channel="stdin")
        assert text_of(told(ws, asked)) == "yes\n"
        for interrupt in (
            lambda: http.post(f"/api/kernels/{kernel}/interrupt"),
            lambda: ask(ws, "interrupt_request", {}, channel="control"),
        ):
            asked = ask(ws, "execute_request", {"code": "while True: pass"})
            while json.loads(ws.recv())["msg_type"] != "execute_input":
                pass
            time.sleep(0.2)
            interrupt()
            errors = [m for m in told(ws, asked) if m["msg_type"] == "error"]
            assert errors[0]["content"]["ename"] == "KeyboardInterrupt"


def test_the_files_of_a_kernel(server, http, kernel, open_server):
    files = f"/v1/sessions/{kernel}/files"
    with channels(server, kernel) as ws:
        execute(ws, "open('plot.png', 'wb').write(b'x' * 10)")
        answer = http.get(f"{files}/plot.png", headers={"Range": "bytes=0-3"})
        assert (answer.status_code, answer.content) == (206, b"xxxx")
        assert http.put(f"{files}/in/data.csv", content=b"a,b").status_code in (200, 201, 204)
        assert text_of(execute(ws, "print(open('in/data.csv').read())")) == "a,b\n"
    with httpx.Client(base_url=open_server.url, timeout=60) as other:
        assert other.get(files).status_code == 404
    assert http.post(f"/api/kernels/{kernel}/restart").status_code == 200
    with channels(server, kernel) as ws:
        assert text_of(execute(ws, "import os; print(os.listdir())")) == "[]\n"
        execute(ws, "open('b', 'w').write('b')")
    assert http.get(f"{files}/b").content == b"b"
    assert http.get(f"{files}/plot.png").status_code == 404


def test_a_restart_forgets_everything(server, http, kernel):
    with channels(server, kernel) as ws:
        execute(ws, "x = 1")
        http.post(f"/api/kernels/{kernel}/restart").raise_for_status()
        messages = execute(ws, "x")
    assert [m["content"]["ename"] for m in messages if m["msg_type"] == "error"] == ["NameError"]


def test_a_client_may_end_a_kernel(server, http, kernel):
    with channels(server, kernel) as ws:
        ask(ws, "shutdown_request", {"restart": False}, channel="control")
        while ws.recv():
            pass
    wait_until(lambda: http.get(f"/api/kernels/{kernel}").status_code == 404)


def test_what_is_no_message_is_passed_over(server, kernel):
    with channels(server, kernel) as ws:
        for text in ["", "{", "[]", "{}", '{"header": {"msg_type": 1}}', '{"channel": "x"}']:
            ws.send(text)
        ws.send_binary(b"\xff" * 100)
        ws.send_binary((2**63).to_bytes(8, "little"))
        told(ws, ask(ws, "kernel_info_request", {}))
        ask(ws, "nothing_request", {})
        ask(ws, "execute_request", [])
        wrong = told(ws, ask(ws, "execute_request", {"code": 5}))
        assert [m["content"]["status"] for m in wrong if "status" in m["content"]] == ["error"]
        assert text_of(execute(ws, "print('still here')")) == "still here\n"


def test_many_clients_come_and_go(server, http):
    kernels = [http.post("/api/kernels").json()["id"] for _ in range(20)]
    for kernel in kernels:
        with channels(server, kernel) as ws:
            ask(ws, "execute_request", {"code": "while True: print('x' * 1000)"})
    for kernel in kernels:
        assert http.delete(f"/api/kernels/{kernel}").status_code == 204
    assert http.get("/api/status").json()["kernels"] == 0
