"""The sample from the article on code execution environments, and its requirements."""

import pytest

import belljar

SAMPLE = """\
import numpy as np
from sklearn.linear_model import LinearRegression

def execute_analysis(data_x, data_y):
    try:
        X = np.array(data_x).reshape(-1, 1)
        y = np.array(data_y)
        model = LinearRegression().fit(X, y)
        return {"slope": model.coef_[0], "intercept": model.intercept_}
    except Exception as e:
        return {"error": str(e)}

x_vals = [1, 2, 3, 4, 5]
y_vals = [2, 4, 5, 4, 5]

result = execute_analysis(x_vals, y_vals)
print(f"Agent Execution Output: {result}")
"""


def test_sample_code():
    outcome = belljar.run(SAMPLE, image="science", timeout=30).outcome
    assert outcome.error is None
    # The article prints an intercept of 1.8, which is wrong.
    assert outcome.result["slope"] == pytest.approx(0.6)
    assert outcome.result["intercept"] == pytest.approx(2.2)
    assert outcome.stdout.startswith("Agent Execution Output: {'slope': ")


def test_state_management_in_stages():
    with belljar.default_runtime().session() as session:
        session.run("import pandas as pd\nframe = pd.DataFrame({' A ': [1, 2, 3]})")
        session.run("frame.columns = frame.columns.str.strip()")
        assert session.run("print(frame['A'].mean())").outcome.stdout == "2.0\n"


def test_deterministic_execution():
    code = "import random, time\nprint(random.random(), time.time(), {'a', 'b', 'c'})"
    first, second = (belljar.run(code, deterministic=True).outcome for _ in range(2))
    assert first.to_dict() == second.to_dict()
    assert first.usage.fuel == second.usage.fuel


def test_the_traceback_is_fed_back():
    code = "import pandas as pd\npd.DataFrame({'a': [1]})['b']"
    outcome = belljar.run(code).outcome
    assert outcome.error.kind == "exception"
    assert outcome.error.type == "KeyError"
    assert 'File "<string>", line 2' in outcome.error.traceback


@pytest.mark.parametrize(
    ("code", "options", "kind"),
    [
        ("while True: pass", {"timeout": 0.3}, "timeout"),
        ("x = bytearray(256 << 20)", {"memory_mb": 128}, "memory"),
        ("open('a', 'wb').write(bytes(32 << 20))", {"workspace_mb": 16}, "exception"),
        ("import socket\nsocket.create_connection(('127.0.0.1', 80))", {}, "exception"),
    ],
    ids=["cpu", "memory", "disk", "network"],
)
def test_limits_hold(code, options, kind):
    assert belljar.run(code, **options).outcome.error.kind == kind
