"""Kagura's executor replaced by belljar's, tested like Kagura's own."""

import sys

import pytest

from belljar import Limits
from belljar.compat import kagura as compat
from belljar.compat.kagura import (
    CodeExecutionAgent,
    CodeExecutor,
    ExecutionResult,
    SecurityError,
    execute_code,
)
from scripted import code

pytestmark = pytest.mark.asyncio


async def execute(text, **options):
    return await CodeExecutor(**options).execute(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("result = 2 + 2", 4),
        ("import math\nresult = math.sqrt(16)", 4.0),
        ("result = {n: n**2 for n in range(5)}", {0: 0, 1: 1, 2: 4, 3: 9, 4: 16}),
        ("result = (1, {2, 3}, b'4')", (1, {2, 3}, b"4")),
        ('import json\nresult = json.loads(\'{"key": "value"}\')', {"key": "value"}),
        (
            "from datetime import datetime\nresult = str(datetime(2024, 1, 1))",
            "2024-01-01 00:00:00",
        ),
        ("x = 1", None),
        ("class A:\n    __repr__ = lambda self: 'an A'\nresult = A()", "an A"),
        (
            "class A:\n    n = 1\ntry:\n    raise ValueError\nexcept ValueError:\n    result = A.n",
            1,
        ),
    ],
)
async def test_results_are_typed(text, expected):
    done = await execute(text)
    assert isinstance(done, ExecutionResult)
    assert (done.success, done.error) == (True, None)
    assert done.result == expected
    assert type(done.result) is type(expected)


async def test_output_time_and_code():
    done = await execute("print('Hello, World!')\nresult = 42")
    assert done.stdout == "Hello, World!\n"
    assert done.code == "print('Hello, World!')\nresult = 42"
    assert 0 < done.execution_time < 1.0
    assert done.model_dump() == {
        "success": True,
        "result": 42,
        "error": None,
        "stdout": "Hello, World!\n",
        "stderr": "",
        "execution_time": done.execution_time,
        "code": done.code,
    }
    assert '"result": 42' in done.model_dump_json()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("import os\nresult = os.getcwd()", "SecurityError: Forbidden import: os"),
        ("from os import getcwd", "SecurityError: Forbidden import: os"),
        ("import os\nresult = eval('1')", "Forbidden import: os; Forbidden operation: eval"),
        ("open('/etc/passwd')", "SecurityError: Forbidden operation: open"),
        ("().__class__.__base__.__dict__", "SecurityError: Forbidden attribute: __dict__"),
        ("result = __import__('os')", "ImportError: Import of 'os' is not allowed"),
        ("result = 2 +", "SyntaxError"),
        ("result = 1 / 0", "ZeroDivisionError"),
        ("result = undefined", "NameError"),
        ("result = 'a' + 1", "TypeError"),
    ],
)
async def test_errors(text, error):
    done = await execute(text)
    assert (done.success, done.result) == (False, None)
    assert error in done.error


async def test_own_list_of_imports():
    assert (await execute("import math\nresult = math.pi", allowed_imports={"math"})).success
    refused = await execute("import json", allowed_imports={"math"})
    assert "SecurityError" in refused.error
    assert (await execute("import decimal", allowed_imports={"decimal"})).success


@pytest.mark.parametrize("text", ["import time\ntime.sleep(9)", "while True:\n    pass"])
async def test_timeout(text):
    done = await execute(f"print('so far')\n{text}", timeout=0.5)
    assert done.error == "TimeoutError: Execution exceeded 0.5 seconds (Execution timeout)"
    assert done.stdout == "so far\n"
    limited = await execute(text, limits=Limits(timeout=0.4))
    assert limited.error == "TimeoutError: Execution exceeded 0.4 seconds (Execution timeout)"


async def test_memory_limit():
    done = await execute("x = bytearray(256 << 20)", memory_limit_mb=64)
    assert done.error == "Memory limit exceeded during code execution"


async def test_validate_code():
    executor = CodeExecutor()
    executor.validate_code("import math\nprint(math.pi)")
    with pytest.raises(SecurityError, match="Forbidden import: os; Forbidden operation: eval"):
        executor.validate_code("import os\neval('1')")
    with pytest.raises(SyntaxError):
        executor.validate_code("x = (")


async def test_the_agent_hands_errors_back():
    asked = []

    async def chat(messages):
        asked.append(messages[-1]["content"])
        return code("result = 1 / 0" if len(asked) == 1 else "result = 1")

    agent = CodeExecutionAgent(chat=chat)
    done = await agent.execute_with_retry("Divide.")
    assert (done.task, done.success, done.result) == ("Divide.", True, 1)
    assert asked[1] == (
        "Divide.\n\nPrevious attempt 1 failed with error: ZeroDivisionError: division by zero\n\n"
        "Please fix the code to address this error."
    )
    assert "math" in agent._instructions()


async def test_the_agent_gives_up():
    asked = []

    def chat(messages):
        asked.append(messages)
        return "result = 1 / 0"

    answer = await execute_code("Divide.", agent=CodeExecutionAgent(chat=chat, max_retries=2))
    assert len(asked) == 2
    assert answer == {
        "code": "result = 1 / 0",
        "success": False,
        "result": None,
        "error": "ZeroDivisionError: division by zero",
    }


async def test_install_makes_modules_where_there_are_none():
    assert "kagura" not in sys.modules
    compat.install()
    try:
        from kagura.agents import CodeExecutionAgent as Agent
        from kagura.agents.code_execution import execute_code as execute
        from kagura.core.executor import CodeExecutor as Executor

        assert (Agent, Executor, execute) == (CodeExecutionAgent, CodeExecutor, execute_code)
    finally:
        compat.uninstall()
    assert "kagura" not in sys.modules
    assert "kagura.core.executor" not in sys.modules


async def test_install_replaces_what_is_there(tmp_path, monkeypatch):
    package = tmp_path / "kagura"
    (package / "core").mkdir(parents=True)
    (package / "agents").mkdir()
    (package / "__init__.py").touch()
    (package / "core" / "__init__.py").touch()
    (package / "core" / "executor.py").write_text(
        "class CodeExecutor: pass\n"
        "class ExecutionResult: pass\n"
        "class SecurityError(Exception): pass\n"
    )
    agents = "def execute_code(): pass\nclass CodeExecutionAgent: pass\nclass CodeResult: pass\n"
    (package / "agents" / "code_execution.py").write_text(agents)
    (package / "agents" / "__init__.py").write_text("from .code_execution import execute_code\n")
    monkeypatch.syspath_prepend(tmp_path)
    compat.install()
    try:
        import kagura.agents
        import kagura.core.executor

        assert kagura.core.executor.CodeExecutor is CodeExecutor
        assert kagura.agents.execute_code is execute_code
        assert kagura.agents.code_execution.CodeExecutionAgent is CodeExecutionAgent
    finally:
        compat.uninstall()
        assert kagura.core.executor.CodeExecutor is not CodeExecutor
        for name in [name for name in sys.modules if name.partition(".")[0] == "kagura"]:
            del sys.modules[name]
