"""Schemathesis checks the server against its OpenAPI document."""

import subprocess
import sys
from pathlib import Path

SCHEMATHESIS = Path(sys.executable).with_name("schemathesis")
# The document describes keys even if the server requires none.
LEFT_OUT = "ignored_auth"
KIND = "the path has to be one of that session, and of a file or of a directory"

# Operations that refuse requests which their schema allows, and why no schema can say it.
REFUSES = {
    "GET /v1/sessions/{id}/files": KIND,
    "DELETE /v1/sessions/{id}/files/{path}": KIND,
    "GET /v1/sessions/{id}/files/{path}": KIND,
    "PUT /v1/sessions/{id}/files/{path}": KIND,
    "POST /v1/sessions/{id}/directories": KIND,
    "POST /v1/sessions/{id}/rename": KIND,
    "GET /v1/sessions/{id}/terminal": "the request has to ask for a WebSocket",
    "POST /v1/checkpoints": "the bytes have to be a checkpoint",
    "POST /v1/runs": "parts of a form have names that are paths, and code has to be Python",
    "POST /v1/sessions": "names of files are paths, and not those of directories",
    "POST /v1/sessions/{id}/answer": "a call has an answer or an error, and not both",
    "POST /v1/sessions/{id}/runs": "names of files are paths, and not those of directories",
    "PUT /v1/sessions/{id}/variables/{name}": "keywords are no names, and texts have a form by type",
}

# Some sessions are created with a limit of no files, so writing fails.
SETTINGS = """
hooks = "hooks.py"

[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", 507]
"""
ALLOWED = """
[[operations]]
include-name = "{name}"
checks.positive_data_acceptance.enabled = false
"""

# JSON Schema takes 3.0 for an integer, and a program that is given an integer does not.
HOOKS = """
import schemathesis

def whole(value):
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [whole(one) for one in value]
    if isinstance(value, dict):
        return {name: whole(one) for name, one in value.items()}
    return value

@schemathesis.hook
def before_call(context, case, kwargs):
    body = whole(case.body)
    # A body that is set anew counts as one that follows the schema.
    if repr(body) != repr(case.body):
        case.body = body
"""


def test_answers_are_those_of_the_document(open_server, tmp_path):
    allowed = (ALLOWED.format(name=name) for name in REFUSES)
    (tmp_path / "schemathesis.toml").write_text(SETTINGS + "".join(allowed))
    (tmp_path / "hooks.py").write_text(HOOKS)
    command = [SCHEMATHESIS, "run", f"{open_server.url}/v1/openapi.json"]
    # Deterministic requests; chains of operations are left to longer runs.
    command += ["--phases=coverage,fuzzing", "--max-examples=5", "--seed=1", "--max-time=30"]
    command += ["--exclude-checks", LEFT_OUT, "--request-timeout=20"]
    # It cannot write lines of JSON.
    command += ["--exclude-path=/v1/batch"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=180)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "API Operations" in ended.stdout
