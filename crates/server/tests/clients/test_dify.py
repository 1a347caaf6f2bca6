"""dify-sandbox: the requests that Dify's code executor sends, and the programs of its nodes."""

import json
from base64 import b64encode

import httpx
import pytest

TIMEOUT = httpx.Timeout(connect=10, read=60, write=60, pool=None)

# What a code node sends: the node's function, its inputs, and the result between two marks.
PYTHON_NODE = """
# declare main function
{code}

import json
from base64 import b64decode

# decode and prepare input dict
inputs_obj = json.loads(b64decode('{inputs}').decode('utf-8'))

# execute main function
output_obj = main(**inputs_obj)

# convert output to json and print
output_json = json.dumps(output_obj, indent=4)
result = f'''<<RESULT>>{{output_json}}<<RESULT>>'''
print(result)
"""

# What a template node sends.
JINJA_NODE = """
# declare main function
def main(**inputs):
    import jinja2
    template = jinja2.Template('''{template}''')
    return template.render(**inputs)

import json
from base64 import b64decode

# decode and prepare input dict
inputs_obj = json.loads(b64decode('{inputs}').decode('utf-8'))

# execute main function
output = main(**inputs_obj)

# convert output and print
result = f'''<<RESULT>>{{output}}<<RESULT>>'''
print(result)
"""


class Executor:
    """Sends what Dify sends, and reads the answer as it does."""

    def __init__(self, endpoint, key):
        self.endpoint = endpoint
        self.headers = {"X-Api-Key": key}

    def execute(self, code, language="python3", preload=""):
        data = {"language": language, "code": code, "preload": preload, "enable_network": True}
        url = f"{self.endpoint}/v1/sandbox/run"
        response = httpx.post(url, json=data, headers=self.headers, timeout=TIMEOUT)
        assert response.status_code == 200, response.text
        answer = response.json()
        if answer["code"] != 0:
            raise RuntimeError(answer["message"])
        if answer["data"]["error"]:
            raise RuntimeError(answer["data"]["error"])
        return answer["data"]["stdout"]

    def node(self, frame, inputs, **parts):
        encoded = b64encode(json.dumps(inputs).encode()).decode()
        stdout = self.execute(frame.format(inputs=encoded, **parts))
        return stdout.split("<<RESULT>>")[1]

    def dependencies(self):
        url = f"{self.endpoint}/v1/sandbox/dependencies"
        parameters = {"language": "python3"}
        response = httpx.get(url, params=parameters, headers=self.headers, timeout=TIMEOUT)
        assert response.status_code == 200
        return response.json()["data"]["dependencies"]


@pytest.fixture
def executor(server):
    return Executor(server.url, server.key)


def test_a_code_node_gets_its_inputs_and_gives_its_result(executor):
    code = (
        "def main(a: int, names: list) -> dict:\n    return {'sum': a + 1, 'all': ', '.join(names)}"
    )
    result = executor.node(PYTHON_NODE, {"a": 41, "names": ["Ada", "Grace"]}, code=code)
    assert json.loads(result) == {"sum": 42, "all": "Ada, Grace"}


def test_a_code_node_has_numpy_and_pandas(executor):
    code = (
        "def main(rows: list) -> dict:\n"
        "    import numpy as np\n"
        "    import pandas as pd\n"
        "    frame = pd.DataFrame(rows)\n"
        "    return {'mean': float(np.mean(frame['x'])), 'rows': len(frame)}"
    )
    result = executor.node(PYTHON_NODE, {"rows": [{"x": 1}, {"x": 2}]}, code=code)
    assert json.loads(result) == {"mean": 1.5, "rows": 2}


def test_a_template_node_renders_with_jinja(executor):
    template = "{% for name in names %}{{ name|upper }};{% endfor %}"
    inputs = {"names": ["a", "b"]}
    assert executor.node(JINJA_NODE, inputs, template=template) == "A;B;"


def test_an_exception_fails_the_node_with_its_traceback(executor):
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        executor.node(PYTHON_NODE, {}, code="def main():\n    return 1 / 0")


def test_a_warning_does_not_fail_the_node(executor):
    code = (
        "import sys, warnings\n"
        "print('careful', file=sys.stderr)\n"
        "warnings.warn('old')\n"
        "print('done')"
    )
    assert executor.execute(code) == "done\n"


def test_a_program_that_never_ends_is_told_of_its_time(executor):
    with pytest.raises(RuntimeError, match="timed out"):
        executor.execute("while True: pass")


def test_a_preload_comes_first(executor):
    assert executor.execute("print(x)", preload="x = 5") == "5\n"


@pytest.mark.parametrize("language", ["nodejs", "go"])
def test_other_languages_are_refused_in_the_protocols_words(executor, server, language):
    data = {"language": language, "code": "1", "preload": "", "enable_network": True}
    headers = {"X-Api-Key": server.key}
    response = httpx.post(f"{server.url}/v1/sandbox/run", json=data, headers=headers)
    assert (response.status_code, response.json()["code"]) == (400, -400)
    assert response.json()["message"] == "unsupported language"


def test_the_packages_are_listed(executor):
    versions = {one["name"]: one["version"] for one in executor.dependencies()}
    assert {"numpy", "pandas", "jinja2"} <= versions.keys()
    assert versions["numpy"].count(".") == 2


def test_a_wrong_key_is_401(server):
    for headers in [{}, {"X-Api-Key": "dify-sandbox"}]:
        response = httpx.post(f"{server.url}/v1/sandbox/run", json={}, headers=headers)
        assert response.status_code == 401
        assert response.json()["code"] < 0


def test_health_is_ok_without_a_key(server):
    response = httpx.get(f"{server.url}/health")
    assert (response.status_code, response.json()) == (200, "ok")
