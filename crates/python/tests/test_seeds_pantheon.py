"""The examples of the page on Pantheon's Python toolset, run by belljar in the real framework."""

import base64
import json

import pytest
import pytest_asyncio

from scripted import ScriptedModel

pytest.importorskip("pantheon.toolset", reason="pantheon-agents is not installed")

from belljar.compat import pantheon as compat

pytestmark = pytest.mark.asyncio


@pytest.fixture(autouse=True)
def framework():
    compat.install()
    yield
    compat.uninstall()


@pytest_asyncio.fixture
async def python_tools(tmp_path):
    from pantheon.toolsets import PythonInterpreterToolSet

    tools = PythonInterpreterToolSet(name="python", workdir=str(tmp_path))
    yield tools
    await tools.cleanup()


async def test_basic_usage(python_tools, monkeypatch):
    pytest.importorskip("fastmcp", reason="fastmcp is not installed")
    from pantheon.agent import Agent

    def answer(messages):
        last = messages[-1]
        if last["role"] == "user":
            return {"code": "x = 6 * 7\nx"}
        return f"The tool says {json.loads(last['content'])['stdout'].strip()}."

    with ScriptedModel(answer) as model:
        monkeypatch.setenv("OPENAI_API_BASE", f"{model.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        agent = Agent(
            name="data_scientist",
            instructions="You are a data scientist who can analyze data with Python.",
            model="openai/gpt-4o-mini",
        )
        await agent.toolset(python_tools)
        response = await agent.run("Six times seven?")
    assert response.content == "The tool says 42."
    offered = {tool["function"]["name"] for tool in model.requests[0]["tools"]}
    ours = {name for name in offered if name.startswith("python__")}
    assert ours == {"python__run_python_code", "python__manage_interpreters"}


async def test_constructor_parameters(tmp_path):
    from pantheon.toolsets.python import PythonInterpreterToolSet

    tools = PythonInterpreterToolSet("python", str(tmp_path), engine=None, init_code="a = 40")
    result = await tools.run_python_code("a + 2")
    assert result["stdout"] == "42\n"
    await tools.cleanup()


async def test_run_python_code(python_tools):
    result = await python_tools.run_python_code(
        code="x = 1 + 2\nprint(x)",
        result_var_name="x",
    )
    assert result == {"success": True, "result": 3, "stdout": "3\n", "stderr": ""}


async def test_auto_recovery(python_tools):
    await python_tools.run_python_code("x = 10")
    crashed = await python_tools.run_python_code("x = 11\nimport os\nos._exit(1)")
    assert crashed["interpreter_restarted"] is True
    assert crashed["restart_reason"].startswith("ProcessExit: ")
    assert crashed["success"] is False
    result = await python_tools.run_python_code("x", result_var_name="x")
    assert result["success"] is True
    assert result["result"] == 10


async def test_manage_interpreters(python_tools):
    result = await python_tools.manage_interpreters(operation="create")
    assert result["success"] is True
    interpreter_id = result["interpreter_id"]
    result = await python_tools.manage_interpreters(operation="list")
    assert result == {
        "success": True,
        "interpreters": [{"id": interpreter_id, "status": "idle"}],
    }
    result = await python_tools.manage_interpreters(
        operation="delete",
        interpreter_id=interpreter_id,
    )
    assert result == {"success": True, "interpreter_id": interpreter_id}
    result = await python_tools.manage_interpreters(operation="list")
    assert result["interpreters"] == []


async def test_state_persistence(python_tools):
    await python_tools.run_python_code("x = 10")
    result = await python_tools.run_python_code("print(x * 2)")
    assert result["stdout"] == "20\n"


async def test_client_isolation(python_tools):
    from pantheon.toolset import ExecutionContext, set_current_context_variables

    # Without a context, the framework keeps the data of one call for all later ones.
    set_current_context_variables(ExecutionContext())
    a, b = {"client_id": "A"}, {"client_id": "B"}
    await python_tools.run_python_code("x = 10", context_variables=a)
    await python_tools.run_python_code("x = 20", context_variables=b)
    result = await python_tools.run_python_code("x", context_variables=a)
    assert result["stdout"] == "10\n"
    result = await python_tools.run_python_code("x", context_variables=b)
    assert result["stdout"] == "20\n"


async def test_matplotlib_support(python_tools, tmp_path):
    result = await python_tools.run_python_code("""
import matplotlib.pyplot as plt
import numpy as np

x = np.linspace(0, 10, 100)
y = np.sin(x)
plt.plot(x, y)
plt.title('Sine Wave')
plt.show()
""")
    assert result["success"] is True
    path = result["fig_storage_path"]
    assert path.startswith(".matplotlib_figs/")
    assert path.endswith(".png")
    [uri] = result["base64_uri"]
    header, _, data = uri.partition(",")
    assert header == "data:image/png;base64"
    assert (tmp_path / path).read_bytes() == base64.b64decode(data)
    assert result["hidden_to_model"] == ["base64_uri"]


async def test_available_libraries(python_tools):
    # plotly is not in the built-in images; `belljar image build` bakes one with it.
    result = await python_tools.run_python_code("""
import pandas, numpy, scipy
import matplotlib, seaborn
import sklearn, statsmodels
import datetime, collections, json
print("all there")
""")
    assert result["stdout"] == "all there\n"


async def test_example_data_analysis(python_tools):
    result = await python_tools.run_python_code("""
import pandas as pd
import numpy as np

# Create sample data
df = pd.DataFrame({
    'date': pd.date_range('2024-01-01', periods=30),
    'sales': np.random.randint(100, 1000, 30),
    'region': np.random.choice(['North', 'South', 'East'], 30)
})

# Analyze
summary = df.groupby('region')['sales'].agg(['mean', 'sum'])
print(summary)
""")
    assert result["stdout"].split()[:2] == ["mean", "sum"]
    assert "North" in result["stdout"]


async def test_example_machine_learning(python_tools):
    result = await python_tools.run_python_code("""
from sklearn.model_selection import train_test_split
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
import numpy as np

# Generate sample data
X = np.random.rand(100, 1) * 10
y = 2 * X + 1 + np.random.randn(100, 1) * 2

# Train model
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2)
model = LinearRegression()
model.fit(X_train, y_train)

# Evaluate
predictions = model.predict(X_test)
r2 = r2_score(y_test, predictions)
print(f"R² Score: {r2:.4f}")
""")
    # `fit` is an expression, and its value is printed.
    assert result["stdout"].startswith("LinearRegression()\nR² Score: 0.")


async def test_example_returning_values(python_tools):
    result = await python_tools.run_python_code(
        code="""
    import pandas as pd
    df = pd.DataFrame({'a': [1, 2, 3], 'b': [4, 5, 6]})
    summary = df.describe().to_dict()
    """,
        result_var_name="summary",
    )
    assert result["result"]["a"]["mean"] == 2.0
    assert result["result"]["b"]["max"] == 6.0
