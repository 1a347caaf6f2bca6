"""That the server keeps what its OpenAPI document says, by Schemathesis, which makes requests from it."""

import subprocess
import sys
from pathlib import Path

SCHEMATHESIS = Path(sys.executable).with_name("schemathesis")
# Left out: a schema cannot say all of what is refused (a name that is no name in Python, a file that is a
# directory), and the document says how a key is sent also where nobody needs one.
LEFT_OUT = "positive_data_acceptance,ignored_auth"


# Sessions are made that may have no files at all, and whoever writes one is told so.
SETTINGS = """
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", 507]
"""


def test_answers_are_those_of_the_document(open_server, tmp_path):
    (tmp_path / "schemathesis.toml").write_text(SETTINGS)
    command = [SCHEMATHESIS, "run", f"{open_server.url}/v1/openapi.json"]
    # The same requests each time; those that a chain of operations leads to are left to longer runs.
    command += ["--phases=coverage,fuzzing", "--max-examples=5", "--seed=1", "--max-time=30"]
    command += ["--exclude-checks", LEFT_OUT, "--request-timeout=20"]
    # It cannot write lines of JSON.
    command += ["--exclude-path=/v1/batch"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=180)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "API Operations" in ended.stdout
