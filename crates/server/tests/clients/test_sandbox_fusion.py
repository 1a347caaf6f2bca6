"""SandboxFusion: its own client, and the request that verl's reward functions send."""

import base64
import json

import pytest
import requests
import sandbox_fusion
from sandbox_fusion import RunCodeRequest, RunJupyterRequest, run_code, run_jupyter

ONCE = {"max_attempts": 1, "client_timeout": 60}


@pytest.fixture
def endpoint(server):
    # The client knows no key: as a password in the URL it goes into the header `Authorization`.
    url = f"http://key:{server.key}@{server.host}"
    sandbox_fusion.set_sandbox_endpoint(url)
    return url


def encoded(data):
    return base64.b64encode(data).decode()


def test_code_runs_with_standard_input(endpoint):
    code = "a, b = map(int, input().split())\nprint(a + b)"
    answer = run_code(RunCodeRequest(code=code, language="python", stdin="2 3"), **ONCE)
    assert answer.status == "Success"
    assert answer.run_result.status == "Finished"
    assert (answer.run_result.return_code, answer.run_result.stdout) == (0, "5\n")
    assert answer.run_result.execution_time >= 0
    assert answer.compile_result is None


def test_a_failure_has_a_return_code_and_a_traceback(endpoint):
    answer = run_code(RunCodeRequest(code="1 / 0", language="python"), **ONCE)
    assert answer.status == "Failed"
    assert answer.run_result.status == "Finished"
    assert answer.run_result.return_code == 1
    assert "ZeroDivisionError" in answer.run_result.stderr
    answer = run_code(RunCodeRequest(code="import sys; sys.exit(3)", language="python"), **ONCE)
    assert answer.run_result.return_code == 3


def test_a_program_out_of_time_is_time_limit_exceeded(endpoint):
    code = "print('so far', flush=True)\nwhile True: pass"
    answer = run_code(RunCodeRequest(code=code, language="python", run_timeout=0.5), **ONCE)
    assert answer.status == "Failed"
    assert answer.run_result.status == "TimeLimitExceeded"
    assert answer.run_result.return_code is None
    assert answer.run_result.stdout == "so far\n"


def test_files_go_in_and_out(endpoint):
    request = RunCodeRequest(
        code="text = open('in/a.bin', 'rb').read()\nopen('out.bin', 'wb').write(text[::-1])",
        language="python",
        files={"in/a.bin": encoded(b"\x00\x01\xff"), "none.txt": None},
        fetch_files=["out.bin", "./in/a.bin", "not_there", "../../etc/passwd", "/etc/passwd"],
    )
    answer = run_code(request, **ONCE)
    assert answer.status == "Success"
    assert answer.files == {
        "out.bin": encoded(b"\xff\x01\x00"),
        "./in/a.bin": encoded(b"\x00\x01\xff"),
    }


def test_what_verl_sends_is_answered(server):
    payload = json.dumps(
        {
            "compile_timeout": 10,
            "run_timeout": 10,
            "code": "print(int(input()) ** 2)",
            "stdin": "12",
            "memory_limit_MB": 1024,
            "language": "python",
            "files": {},
            "fetch_files": [],
        }
    )
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    url = f"http://key:{server.key}@{server.host}/run_code"
    answer = requests.post(url, headers=headers, data=payload, timeout=40).json()
    assert answer["status"] == "Success"
    assert answer["run_result"]["stdout"] == "144\n"
    assert answer["executor_pod_name"] is None


def test_a_limit_of_memory_holds(server):
    payload = {"code": "x = bytearray(200 << 20)", "language": "python", "memory_limit_MB": 64}
    url = f"http://key:{server.key}@{server.host}/run_code"
    answer = requests.post(url, json=payload, timeout=40).json()
    assert answer["status"] == "Failed"
    assert answer["run_result"]["return_code"] == -9
    assert "MemoryError" in answer["run_result"]["stderr"]


@pytest.mark.parametrize("language", ["cpp", "bash", "lean", "D_ut", "R", "go_test"])
def test_other_languages_are_an_error_of_the_sandbox(endpoint, language):
    with pytest.raises(Exception, match="only Python"):
        run_code(RunCodeRequest(code="1", language=language), **ONCE)


def test_pytest_says_that_it_is_not_there(endpoint):
    request = RunCodeRequest(code="def test_a(): assert True", language="pytest")
    with pytest.raises(Exception, match="pytest is not in the image"):
        run_code(request, **ONCE)


def test_a_language_that_the_protocol_does_not_know_is_422(server):
    url = f"http://key:{server.key}@{server.host}/run_code"
    answer = requests.post(url, json={"code": "1", "language": "cobol"}, timeout=40)
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["loc"] == ["body"]


def test_cells_share_their_variables_and_go_on_after_an_error(endpoint):
    cells = [
        "a = 123",
        "a",
        "print(a)",
        'import sys; sys.stderr.write("stderr message")',
        'raise RuntimeError("error message")',
        "open('made.txt', 'w').write(str(a))",
    ]
    request = RunJupyterRequest(cells=cells, fetch_files=["made.txt"])
    answer = run_jupyter(request, **ONCE)
    assert answer.status == "Success"
    assert answer.driver.status == "Finished"
    one, two, three, four, five, _ = answer.cells
    assert (one.stdout, one.display, one.error) == ("", [], [])
    assert two.display == [{"text/plain": "123"}]
    assert three.stdout == "123\n"
    assert four.stderr == "stderr message"
    assert (five.error[0]["ename"], five.error[0]["evalue"]) == ("RuntimeError", "error message")
    assert any("RuntimeError" in line for line in five.error[0]["traceback"])
    assert answer.files == {"made.txt": encoded(b"123")}


def test_a_figure_is_displayed(endpoint):
    cells = ["import matplotlib.pyplot as plt", "plt.plot([1, 2])\nplt.show()"]
    answer = run_jupyter(RunJupyterRequest(cells=cells), **ONCE)
    shown = answer.cells[1].display
    assert any(
        base64.b64decode(one["image/png"]).startswith(b"\x89PNG")
        for one in shown
        if "image/png" in one
    )


def test_cells_out_of_time_end_the_notebook(endpoint):
    cells = ["print(1)", "while True: pass", "print(2)"]
    answer = run_jupyter(RunJupyterRequest(cells=cells, total_timeout=1), **ONCE)
    assert answer.status == "Failed"
    assert answer.driver.status == "TimeLimitExceeded"
    assert len(answer.cells) == 2


def test_a_cell_out_of_its_own_time_does_not(endpoint):
    cells = ["while True: pass", "print(2)"]
    answer = run_jupyter(RunJupyterRequest(cells=cells, cell_timeout=0.5), **ONCE)
    assert answer.status == "Success"
    assert answer.cells[0].error
    assert answer.cells[1].stdout == "2\n"


def test_a_key_is_needed(server):
    answer = requests.post(
        f"{server.url}/run_code", json={"code": "1", "language": "python"}, timeout=40
    )
    assert answer.status_code == 401
    assert requests.get(f"{server.url}/v1/ping", timeout=40).json() == "pong"
