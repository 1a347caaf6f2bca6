"""The examples of the tutorial on SynapseKit's code interpreter, run by belljar.

The framework is the real one; its model is scripted and answers over HTTP.
"""

import json
import sys
import types

import pytest

from scripted import ScriptedModel

synapsekit = pytest.importorskip("synapsekit", reason="synapsekit is not installed")
pytest.importorskip("openai", reason="openai is not installed")

from belljar.compat import synapsekit as compat  # noqa: E402

pytestmark = pytest.mark.asyncio

PROGRAMS = {
    "primes": """\
def is_prime(n):
    if n < 2: return False
    return all(n % d for d in range(2, n))

print(sum(n * n for n in range(50) if is_prime(n)))
""",
    "seed 42": """\
import random, statistics

random.seed(42)
numbers = [random.randint(1, 100) for _ in range(20)]
print("Mean:", statistics.mean(numbers), "Median:", statistics.median(numbers))
""",
    "bar chart": """\
import matplotlib.pyplot as plt

plt.bar(range(5), [3, 7, 2, 9, 5])
plt.savefig("chart.png")
""",
    "prime numbers": "print(2 + 3 + 5)",
}


def answer(messages):
    last = messages[-1]
    if last["role"] == "user":
        key = next(key for key in PROGRAMS if key in last["content"])
        return {"code": PROGRAMS[key]}
    return f"The tool says {json.loads(last['content'])['stdout'].strip() or 'nothing'}."


@pytest.fixture
def model(monkeypatch):
    """The framework with belljar's tool, a scripted model, and the tutorial's names."""
    from synapsekit.llm.base import LLMConfig
    from synapsekit.llm.openai import OpenAILLM

    class TutorialLLM(OpenAILLM):
        """The tutorial names only the model; the framework wants a configuration."""

        def __init__(self, model):
            super().__init__(LLMConfig(model=model, api_key="sk-test", provider="openai"))

    tutorial = types.ModuleType("synapsekit.llms.openai")
    tutorial.OpenAILLM = TutorialLLM
    monkeypatch.setitem(sys.modules, "synapsekit.llms", types.ModuleType("synapsekit.llms"))
    monkeypatch.setitem(sys.modules, "synapsekit.llms.openai", tutorial)
    compat.install()
    with ScriptedModel(answer) as scripted:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{scripted.url}/v1")
        yield scripted
    compat.uninstall()


async def test_step_1_import_and_configure_the_tool(model):
    from synapsekit.agents import CodeInterpreterTool, FunctionCallingAgent
    from synapsekit.llms.openai import OpenAILLM

    code_tool = CodeInterpreterTool(
        timeout=10.0,
        memory_limit_mb=256,
    )
    assert isinstance(code_tool, compat.CodeInterpreterTool)
    assert code_tool.schema()["function"]["name"] == "code_interpreter"
    assert FunctionCallingAgent(llm=OpenAILLM(model="gpt-4o-mini"), tools=[code_tool])


async def test_step_2_understand_the_output_format(model):
    from synapsekit.agents import CodeInterpreterTool

    code_tool = CodeInterpreterTool(timeout=10.0, memory_limit_mb=256)

    async def run_code(code: str) -> dict:
        result = await code_tool.run(code=code)
        if result.is_error:
            return {"error": result.error}
        return json.loads(result.output)

    payload = await run_code(
        "import pandas as pd\n"
        "import matplotlib.pyplot as plt\n"
        "df = pd.DataFrame({'a': [1]})\n"
        "plt.plot([1, 2])\n"
        "print('out')\n"
    )
    assert list(payload) == ["stdout", "stderr", "files", "plots", "dataframes"]
    assert payload["stdout"] == "out\n"
    assert payload["stderr"] == ""
    assert payload["dataframes"] == [{"name": "df", "repr": "   a\n0  1"}]
    assert payload["plots"][0]["path"] == "plots/plot_1.png"
    assert payload["plots"] == payload["files"]
    assert (await run_code("1 / 0"))["error"].startswith("ZeroDivisionError: division by zero\n")


async def test_step_3_build_a_data_analysis_agent_and_step_4_ask_it(model):
    from synapsekit.agents import CodeInterpreterTool, FunctionCallingAgent
    from synapsekit.llms.openai import OpenAILLM

    code_tool = CodeInterpreterTool(timeout=10.0, memory_limit_mb=256)
    agent = FunctionCallingAgent(
        llm=OpenAILLM(model="gpt-4o-mini"),
        tools=[code_tool],
        system_prompt=(
            "You are a data analysis assistant. Always answer quantitative questions "
            "by writing Python code and executing it with the code_interpreter tool. "
            "Parse the JSON output to extract stdout and any dataframe reprs. "
            "If code fails with an error in stderr, fix it and retry once."
        ),
        max_iterations=6,
    )

    async def analyze(question: str) -> str:
        return await agent.run(question)

    assert await analyze("What are the squares of all primes?") == "The tool says 10466."
    assert model.requests[0]["tools"] == [code_tool.schema()]


async def test_step_5_handle_multi_step_analysis(model):
    from synapsekit.agents import CodeInterpreterTool, FunctionCallingAgent
    from synapsekit.llms.openai import OpenAILLM

    analysis_agent = FunctionCallingAgent(
        llm=OpenAILLM(model="gpt-4o-mini"),
        tools=[CodeInterpreterTool(timeout=15.0, memory_limit_mb=512)],
        system_prompt="If matplotlib is used, call plt.savefig('output.png') before plt.show().",
        max_iterations=8,
    )
    assert await analysis_agent.run("Make a bar chart.") == "The tool says nothing."
    payload = json.loads(analysis_agent.memory.steps[0].observation)
    assert [plot["path"] for plot in payload["plots"]] == ["chart.png", "plots/plot_1.png"]


async def test_step_6_parse_plots_and_file_artifacts(model):
    from synapsekit.agents import CodeInterpreterTool, FunctionCallingAgent
    from synapsekit.llms.openai import OpenAILLM

    def extract_artifacts(agent: FunctionCallingAgent) -> list[dict]:
        artifacts = []
        for step in agent.memory.steps:
            try:
                payload = json.loads(step.observation)
                artifacts.extend(payload.get("plots", []))
                artifacts.extend(payload.get("files", []))
            except (json.JSONDecodeError, AttributeError):
                pass
        return artifacts

    agent = FunctionCallingAgent(
        llm=OpenAILLM(model="gpt-4o-mini"),
        tools=[CodeInterpreterTool(timeout=10.0, memory_limit_mb=256)],
    )
    await agent.run("Make a bar chart.")
    artifacts = extract_artifacts(agent)
    # The code saved the figure and left it open.
    assert [artifact["path"] for artifact in artifacts] == ["chart.png", "plots/plot_1.png"] * 2
    assert all(artifact["size"] > 1000 for artifact in artifacts)


async def test_complete_working_example(model, capsys):
    from synapsekit.agents import (
        ActionEvent,
        CodeInterpreterTool,
        FinalAnswerEvent,
        FunctionCallingAgent,
        ObservationEvent,
    )
    from synapsekit.llms.openai import OpenAILLM

    def build_agent() -> FunctionCallingAgent:
        return FunctionCallingAgent(
            llm=OpenAILLM(model="gpt-4o-mini"),
            tools=[CodeInterpreterTool(timeout=10.0, memory_limit_mb=256)],
            system_prompt=(
                "You are a Python data analysis assistant. "
                "Always execute code to answer quantitative questions. "
                "Print results to stdout. If code fails, fix and retry once."
            ),
            max_iterations=6,
        )

    async def main() -> None:
        agent = build_agent()
        questions = [
            "What is the sum of squares of all prime numbers below 50 (all primes)?",
            (
                "Generate a list of 20 random integers between 1 and 100 using seed 42, "
                "then compute mean, median, and standard deviation."
            ),
            "Write Python to create a simple bar chart of [3, 7, 2, 9, 5], save it as chart.png.",
        ]
        for question in questions:
            print(f"\nQ: {question}")
            print("-" * 60)
            async for event in agent.stream_steps(question):
                if isinstance(event, ActionEvent):
                    code = str(event.tool_input)
                    preview = "\n".join(code.splitlines()[:3])
                    print(f"[code]\n{preview}\n...")
                elif isinstance(event, ObservationEvent):
                    try:
                        payload = json.loads(event.observation)
                        if payload.get("stdout"):
                            print(f"[stdout] {payload['stdout'].strip()}")
                        if payload.get("stderr"):
                            print(f"[stderr] {payload['stderr'].strip()[:100]}")
                        if payload.get("plots"):
                            print(f"[plots] {[p['path'] for p in payload['plots']]}")
                    except json.JSONDecodeError:
                        print(f"[obs] {event.observation[:100]}")
                elif isinstance(event, FinalAnswerEvent):
                    print(f"\nAnswer: {event.answer}")

        artifacts = []
        for step in agent.memory.steps:
            try:
                payload = json.loads(step.observation)
                artifacts.extend(payload.get("files", []))
                artifacts.extend(payload.get("plots", []))
            except (json.JSONDecodeError, AttributeError):
                pass
        if artifacts:
            print(f"\nArtifacts produced: {[a['path'] for a in artifacts]}")

    await main()
    printed = capsys.readouterr().out
    # The tutorial's own output is wrong: 1060, and a mean of 54.35.
    assert "[stdout] 10466\n" in printed
    assert "Answer: The tool says 10466." in printed
    assert "[stdout] Mean: 43.2 Median: 30.5\n" in printed
    assert "[plots] ['chart.png', 'plots/plot_1.png']" in printed
    assert "Artifacts produced: ['chart.png', 'plots/plot_1.png', 'chart.png', " in printed
    assert "[stderr]" not in printed
    assert "[obs]" not in printed


async def test_how_it_works_nothing_is_shared_with_the_host(model):
    from synapsekit.agents import CodeInterpreterTool

    code_tool = CodeInterpreterTool()
    leave = "import sys, os, math\nsys.modules['left'] = math\nos.environ['LEFT'] = '1'\nx = 1\n"
    assert not (await code_tool.run(code=f"{leave}open('left', 'w').close()")).is_error
    look = "import sys, os\nprint('left' in sys.modules, 'LEFT' in os.environ, os.listdir())"
    payload = json.loads((await code_tool.run(code=look)).output)
    assert payload["stdout"] == "False False []\n"
    assert "left" not in sys.modules


async def test_how_it_works_a_timeout_is_an_error_of_the_result(model):
    from synapsekit.agents import CodeInterpreterTool

    result = await CodeInterpreterTool(timeout=0.5).run(code="print('so far')\nwhile True: pass")
    assert result.is_error
    assert result.error.startswith("Code execution timed out after 0.5 seconds")
    assert json.loads(result.output)["stdout"] == "so far\n"


async def test_variation_pass_data_as_a_literal(model):
    import json as _json

    from synapsekit.agents import CodeInterpreterTool

    code_tool = CodeInterpreterTool()
    data = [1, 2, 3, 4, 5]
    code = f"data = {_json.dumps(data)}\nprint(sum(data))"
    result = await code_tool.run(code=code)
    assert json.loads(result.output)["stdout"] == "15\n"


async def test_variation_longer_running_analysis(model):
    from synapsekit.agents import CodeInterpreterTool

    slow_tool = CodeInterpreterTool(timeout=60.0, memory_limit_mb=1024)
    result = await slow_tool.run(code="x = bytearray(500 << 20)\nprint(len(x))")
    assert json.loads(result.output)["stdout"] == f"{500 << 20}\n"


async def test_variation_the_unsafe_repl_stays_the_framework_s(model):
    from synapsekit.agents import PythonREPLTool

    repl_tool = PythonREPLTool()
    assert (await repl_tool.run(code="print(6 * 7)")).output.strip() == "42"


async def test_troubleshooting_pandas_fits_into_the_default_timeout(model):
    from synapsekit.agents import CodeInterpreterTool

    code = "import pandas as pd\nprint(pd.Series([1, 2]).sum())"
    assert json.loads((await CodeInterpreterTool().run(code=code)).output)["stdout"] == "3\n"


async def test_troubleshooting_plots_are_captured_after_show(model):
    from synapsekit.agents import CodeInterpreterTool

    code = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"
    payload = json.loads((await CodeInterpreterTool().run(code=code)).output)
    assert [plot["path"] for plot in payload["plots"]] == ["plots/plot_1.png"]


async def test_troubleshooting_the_framework_cannot_be_imported(model):
    from synapsekit.agents import CodeInterpreterTool

    result = await CodeInterpreterTool().run(code="import synapsekit")
    assert result.error.startswith("ModuleNotFoundError: No module named 'synapsekit'\n")
