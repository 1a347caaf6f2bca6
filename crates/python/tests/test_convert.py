"""Outcomes in the formats of OpenAI, Anthropic and Gemini, checked with their own types."""

import base64

import pytest

import belljar
from belljar import convert, report

PLOT = """\
import matplotlib.pyplot as plt

plt.plot([1, 2])
plt.show()
print("drawn")
"""
FAILING = "print('so far')\n1 / 0\n"


@pytest.fixture(scope="module")
def plotted():
    return belljar.run(PLOT)


@pytest.fixture(scope="module")
def failed():
    return belljar.run(FAILING)


@pytest.fixture(scope="module")
def timed_out():
    return belljar.run("print('so far')\nwhile True: pass", timeout=0.3)


@pytest.fixture(scope="module")
def refused():
    return belljar.run("import os", policy="strict")


def test_openai_code_interpreter_call(plotted, failed, timed_out):
    pytest.importorskip("openai", reason="openai is not installed")
    from openai.types.responses import ResponseCodeInterpreterToolCall

    call = ResponseCodeInterpreterToolCall.model_validate(plotted.to_openai())
    assert (call.code, call.status) == (PLOT, "completed")
    logs, image = call.outputs
    assert logs.logs == "drawn\n"
    header, _, data = image.url.partition(",")
    assert header == "data:image/png;base64"
    assert base64.b64decode(data) == plotted["plots/plot_1.png"]

    call = ResponseCodeInterpreterToolCall.model_validate(failed.to_openai())
    assert call.status == "failed"
    assert call.outputs[0].logs.startswith("so far\nTraceback (most recent call last):\n")
    call = ResponseCodeInterpreterToolCall.model_validate(timed_out.to_openai())
    assert call.status == "incomplete"
    assert "Code execution timed out after 0.3 seconds" in call.outputs[0].logs


def test_openai_output_of_a_function_tool(plotted):
    pytest.importorskip("openai", reason="openai is not installed")
    from openai.types.responses.response_input_item import FunctionCallOutput

    item = plotted.to_openai(call_id="call_1")
    checked = FunctionCallOutput.model_validate(item)
    assert checked.call_id == "call_1"
    assert [part.type for part in checked.output] == ["input_text", "input_image"]
    assert checked.output[0].text.startswith("drawn\n")


def test_anthropic_tool_result(plotted, failed):
    pytest.importorskip("anthropic", reason="anthropic is not installed")
    from anthropic.types import ToolResultBlockParam
    from pydantic import TypeAdapter

    adapter = TypeAdapter(ToolResultBlockParam)
    block = plotted.to_anthropic("toolu_1")
    adapter.validate_python(block)
    assert (block["tool_use_id"], block["is_error"]) == ("toolu_1", False)
    text, image = block["content"]
    assert text["text"].startswith("drawn\n")
    assert base64.b64decode(image["source"]["data"]) == plotted["plots/plot_1.png"]
    block = failed.to_anthropic("toolu_2")
    adapter.validate_python(block)
    assert block["is_error"] is True
    assert block["content"][0]["text"].startswith("ZeroDivisionError: division by zero\n")


def test_anthropic_code_execution_result(plotted, failed, timed_out, refused):
    pytest.importorskip("anthropic", reason="anthropic is not installed")
    from anthropic.types.beta import BetaCodeExecutionToolResultBlock as Block

    result = Block.model_validate(
        plotted.to_anthropic(file_ids={"plots/plot_1.png": "file_1"})
    ).content
    assert (result.stdout, result.stderr, result.return_code) == ("drawn\n", "", 0)
    assert [output.file_id for output in result.content] == ["file_1"]
    result = Block.model_validate(failed.to_anthropic("srvtoolu_1")).content
    assert result.return_code == 1
    assert result.stderr.endswith("ZeroDivisionError: division by zero\n")
    for run, code in ((timed_out, "execution_time_exceeded"), (refused, "invalid_tool_input")):
        assert Block.model_validate(run.to_anthropic()).content.error_code == code
    exited = belljar.run("import sys\nsys.exit(3)")
    assert Block.model_validate(exited.to_anthropic()).content.return_code == 3


def test_gemini_parts(plotted, failed, timed_out):
    genai = pytest.importorskip("google.genai", reason="google-genai is not installed")
    part = genai.types.Part
    code, result, image = (part.model_validate(held) for held in plotted.to_gemini())
    assert (code.executable_code.code, code.executable_code.language.value) == (PLOT, "PYTHON")
    assert result.code_execution_result.outcome.value == "OUTCOME_OK"
    assert result.code_execution_result.output == "drawn\n"
    assert image.inline_data.data == plotted["plots/plot_1.png"]
    for run, outcome in ((failed, "OUTCOME_FAILED"), (timed_out, "OUTCOME_DEADLINE_EXCEEDED")):
        _, result = (part.model_validate(held) for held in run.to_gemini())
        assert result.code_execution_result.outcome.value == outcome
        assert result.code_execution_result.output.startswith("so far\n")


def test_gemini_function_response(plotted, failed):
    genai = pytest.importorskip("google.genai", reason="google-genai is not installed")
    answer, image = plotted.to_gemini(name="run_python", call_id="1")
    response = genai.types.Part.model_validate(answer).function_response
    assert (response.name, response.id) == ("run_python", "1")
    assert response.response["output"].startswith("drawn\n")
    assert genai.types.Part.model_validate(image).inline_data
    [answer] = failed.to_gemini(name="run_python")
    assert "ZeroDivisionError" in answer["functionResponse"]["response"]["error"]


def test_an_outcome_alone_has_no_figures_but_inline_ones(plotted):
    assert len(plotted.outcome.to_gemini()) == 2
    inline = belljar.run(PLOT, capture={"inline_images": True}).outcome
    assert inline.to_openai()["outputs"][1]["url"].startswith("data:image/png;base64,")


def test_figures_that_are_no_pictures_stay_files():
    run = belljar.run(PLOT, capture={"figure_format": "svg"})
    assert run.plots[0].path.endswith(".svg")
    assert [part["type"] for part in run.to_openai()["outputs"]] == ["logs"]


def test_a_document_from_elsewhere_does_as_well(failed):
    item = convert.to_anthropic(failed.outcome.to_dict(), "toolu_1")
    assert item["is_error"]


def describe(code, **options):
    return report.describe(belljar.run(code, **options).outcome.to_dict())


def test_description_of_a_success():
    assert describe("x = 1") == "(no output)"
    assert describe("print('a')\nresult = {'b': 1}") == 'a\n\nresult: {"b": 1}'
    told = describe(
        "import pandas as pd\nimport sys\n"
        "df = pd.DataFrame({'a': [1]})\nopen('a.txt', 'w').write('abc')\n"
        "print('careful', file=sys.stderr)"
    )
    assert told == "stderr:\ncareful\n\ndf:\n   a\n0  1\n\nfiles: a.txt (3 bytes)"


def test_description_of_failures():
    told = describe(FAILING)
    assert told.startswith("ZeroDivisionError: division by zero\n\nTraceback (most recent call")
    assert told.endswith("output so far:\nso far")
    assert told.count("Traceback") == 1
    told = describe("n = 1\nwhile True: pass", timeout=0.3)
    assert told.startswith("Code execution timed out after 0.3 seconds\nline 2 was running\n")
    told = describe("import os\n\neval('1')", policy="strict")
    assert told.endswith("line 1: Forbidden import: os\nline 3: Forbidden operation: eval")
    assert "hint: Only /workspace" in describe("open('/etc/passwd')")


def test_description_is_shortened_in_the_middle():
    told = report.describe(belljar.run("print('x' * 50_000 + 'end')").outcome.to_dict(), limit=1000)
    assert len(told) == 1000
    assert told.startswith("xxx")
    assert told.endswith("end")
    assert "characters left out" in told
