"""The replacements for other frameworks."""

import asyncio
import inspect
import io

import pytest

import belljar


def test_smolagents():
    smolagents = pytest.importorskip("smolagents", reason="smolagents is not installed")
    from belljar.compat.smolagents import BelljarExecutor, CodeError

    class Price(smolagents.Tool):
        name = "price"
        description = "The price of a thing."
        inputs = {"thing": {"type": "string", "description": "which"}}  # noqa: RUF012
        output_type = "number"

        def forward(self, thing: str) -> float:
            return {"tea": 3.0, "coffee": 4.0}[thing]

    executor = BelljarExecutor(timeout=5)
    executor.send_tools({"price": Price(), "final_answer": smolagents.FinalAnswerTool()})
    executor.send_variables({"discount": 0.5, "names": ("tea", "coffee")})
    output = executor("print(names)\nsum(price(name) for name in names) * discount")
    assert (output.output, output.logs, output.is_final_answer) == (
        "3.5",
        "('tea', 'coffee')\n",
        False,
    )
    with pytest.raises(CodeError, match=r"^ZeroDivisionError"):
        executor("kept = 1\n1 / 0")
    output = executor(
        "try:\n    final_answer({1: kept})\nexcept Exception:\n    pass\nprint('never')"
    )
    assert (output.output, output.logs, output.is_final_answer) == ({1: 1}, "", True)
    executor.cleanup()
    executor = BelljarExecutor(limits=belljar.Limits(timeout=0.3))
    with pytest.raises(CodeError, match=r"timed out after 0\.3 seconds"):
        executor("while True: pass")
    executor.cleanup()

    replies = iter(
        [
            "Thought: ask.\n<code>\ncost = price('tea')\nprint(cost)\n</code>",
            "<code>\nfinal_answer(cost * 2)\n</code>",
        ]
    )

    class Scripted(smolagents.Model):
        def generate(self, messages, **_):
            return smolagents.ChatMessage(role="assistant", content=next(replies))

    agent = smolagents.CodeAgent(
        tools=[Price()], model=Scripted(), executor=BelljarExecutor(), verbosity_level=0
    )
    assert agent.run("What do two teas cost?") == 6.0
    agent.cleanup()


@pytest.fixture
def langchain():
    pytest.importorskip(
        "langchain_experimental.tools", reason="langchain-experimental is not installed"
    )
    from belljar.compat import langchain

    return langchain


def test_langchain_repl(langchain):
    from langchain_experimental.utilities import PythonREPL

    repl = langchain.PythonREPL(_globals={"x": 20, "__name__": "x"})
    assert isinstance(repl, PythonREPL)
    assert repl.run("```python\nprint(x + 1)\n```") == "21\n"
    assert repl.run("x + 1") == ""
    assert repl.run("x = 1 / 0") == "ZeroDivisionError('division by zero')"
    assert repl.run("while True: pass", timeout=0.3) == "Execution timed out"
    assert repl.run("print(x)") == "20\n"
    repl.close()


def test_langchain_tools(langchain):
    tool = langchain.PythonREPLTool()
    assert tool.name == "Python_REPL"
    tool.invoke("y = 2")
    assert tool.invoke("print(y)") == "2\n"
    tool = langchain.PythonAstREPLTool(locals={"z": 5})
    assert tool.invoke({"query": "print('a')\nz + 1"}) == 6
    assert tool.invoke({"query": "w = [z]\nw"}) == [5]
    assert tool.invoke({"query": "print('a')"}) == "a\n"
    assert tool.invoke({"query": "w = 1"}) == ""
    assert tool.invoke({"query": "1 +"}).startswith("SyntaxError: ")
    assert tool.invoke({"query": "1 / 0"}) == "ZeroDivisionError: division by zero"


def test_langchain_install(langchain):
    from langchain_experimental import tools, utilities

    langchain.install()
    try:
        assert tools.PythonREPLTool is langchain.PythonREPLTool
        assert utilities.PythonREPL is langchain.PythonREPL
    finally:
        langchain.uninstall()
    assert tools.PythonREPLTool is not langchain.PythonREPLTool


@pytest.fixture
def langchain_sandbox():
    pytest.importorskip("langchain_sandbox", reason="langchain-sandbox is not installed")
    from belljar.compat import langchain_sandbox

    return langchain_sandbox


def test_langchain_sandbox(langchain_sandbox):
    sandbox = langchain_sandbox.SyncPyodideSandbox()
    done = sandbox.execute("print('a')\n6 * 7")
    assert (done.status, done.stdout, done.stderr, done.result) == ("success", "a\n", None, "42")
    assert (done.session_bytes, done.session_metadata) == (None, None)
    failed = sandbox.execute("1 / 0")
    assert failed.status == "error"
    assert failed.stderr.endswith("ZeroDivisionError: division by zero\n")
    slow = sandbox.execute("print('so far')\nwhile True: pass", timeout_seconds=0.3)
    assert slow.stderr == "Execution timed out after 0.3 seconds"
    assert slow.stdout == "so far\n"
    full = sandbox.execute("x = bytearray(256 << 20)", memory_limit_mb=64)
    assert "Memory limit exceeded" in full.stderr

    sandbox = langchain_sandbox.SyncPyodideSandbox(stateful=True)
    first = sandbox.execute("x = 20")
    second = sandbox.execute("x += 1", session_bytes=first.session_bytes)
    assert sandbox.execute("x", session_bytes=second.session_bytes).result == "21"
    assert sandbox.execute("x", session_bytes=first.session_bytes).result == "20"


@pytest.mark.asyncio
async def test_langchain_sandbox_and_its_tool(langchain_sandbox):
    import langchain_sandbox as package

    langchain_sandbox.install()
    try:
        sandbox = package.PyodideSandbox(stateful=True, allow_net=True)
        state = (await sandbox.execute("x = 20")).session_bytes
        assert (await sandbox.execute("x + 1", session_bytes=state)).result == "21"
        tool = package.PyodideSandboxTool()
        assert await tool.ainvoke("print(6 * 7)") == "42\n"
        assert tool.invoke("print(6 * 7)") == "42\n"
    finally:
        langchain_sandbox.uninstall()
    assert package.PyodideSandbox is not langchain_sandbox.PyodideSandbox


def test_llamaindex():
    pytest.importorskip("llama_index.core", reason="llama-index-core is not installed")
    from belljar.compat.llamaindex import CodeInterpreterToolSpec

    [tool] = CodeInterpreterToolSpec().to_tool_list()
    assert tool.metadata.name == "code_interpreter"
    assert "standard error" in tool.metadata.description
    assert tool.call(code="print(6 * 7)").content == "StdOut:\n42\n\nStdErr:\n"
    failed = tool.call(code="print('a')\n1 / 0").content
    assert failed.startswith("StdOut:\na\n\nStdErr:\nTraceback")
    with belljar.default_runtime().session() as session:
        spec = CodeInterpreterToolSpec(session=session, timeout=3)
        spec.code_interpreter("x = 1")
        assert spec.code_interpreter("x") == "StdOut:\n1\n\nStdErr:\n"


@pytest.mark.asyncio
async def test_autogen():
    pytest.importorskip("autogen_core", reason="autogen-core is not installed")
    from autogen_core import CancellationToken
    from autogen_core.code_executor import CodeBlock, CodeExecutor

    from belljar.compat.autogen import BelljarCodeExecutor

    async def run(executor, *codes, token=None):
        blocks = [CodeBlock(code, "python") for code in codes]
        return await executor.execute_code_blocks(blocks, token or CancellationToken())

    async with BelljarCodeExecutor(timeout=5) as executor:
        assert isinstance(executor, CodeExecutor)
        done = await run(executor, "x = 1", "print(x)")
        assert (done.exit_code, done.output) == (0, "1\n")
        done = await run(executor, "print('a')", "1 / 0", "print('never')")
        assert done.exit_code == 1
        assert done.output.startswith("a\nTraceback")
        assert "never" not in done.output
        assert (await run(executor, "import sys\nsys.exit(3)")).exit_code == 3
        done = await executor.execute_code_blocks([CodeBlock("ls", "bash")], CancellationToken())
        assert (done.exit_code, done.output) == (1, "unsupported language: bash\n")
        await executor.restart()
        assert "NameError" in (await run(executor, "x")).output

        token = CancellationToken()
        asyncio.get_running_loop().call_later(0.2, token.cancel)
        with pytest.raises(asyncio.CancelledError):
            await run(executor, "while True: pass", token=token)
        copy = CodeExecutor.load_component(executor.dump_component())
        assert copy.dump_component() == executor.dump_component()
    short = BelljarCodeExecutor(timeout=0.3)
    assert (await run(short, "while True: pass")).exit_code == 124
    await short.stop()


def test_google_adk():
    pytest.importorskip("google.adk", reason="google-adk is not installed")
    import base64

    from google.adk.code_executors.code_execution_utils import CodeExecutionInput, File

    from belljar.compat.adk import BelljarCodeExecutor

    executor = BelljarCodeExecutor(timeout_seconds=5)
    data = base64.b64encode(b"a,b\n1,2\n").decode()
    done = executor.execute_code(
        None,
        CodeExecutionInput(
            code=(
                "text = open('in.csv').read()\n"
                "open('out.csv', 'w').write(text * 2)\n"
                "print(len(text))"
            ),
            input_files=[File("in.csv", data, "text/csv")],
        ),
    )
    assert (done.stdout, done.stderr, done.exit_code) == ("8\n", "", 0)
    [file] = done.output_files
    assert (file.name, file.mime_type) == ("out.csv", "text/csv")
    assert file.content == b"a,b\n1,2\na,b\n1,2\n"
    failed = executor.execute_code(None, CodeExecutionInput(code="1 / 0"))
    assert failed.exit_code == 1
    assert "ZeroDivisionError" in failed.stderr
    warned = executor.execute_code(
        None, CodeExecutionInput(code="import warnings\nwarnings.warn('x')")
    )
    assert (warned.stderr, warned.exit_code) == ("", 0)

    executor = BelljarCodeExecutor(stateful=True)
    for execution_id, expected in (("a", "1\n"), ("b", "1\n"), ("a", "2\n")):
        code = "n = globals().get('n', 0) + 1\nprint(n)"
        asked = CodeExecutionInput(code=code, execution_id=execution_id)
        assert executor.execute_code(None, asked).stdout == expected
    executor.close()


@pytest.mark.asyncio
async def test_google_adk_s_agent():
    pytest.importorskip("google.adk", reason="google-adk is not installed")
    from google.adk.agents import Agent
    from google.adk.models import BaseLlm, LlmResponse
    from google.adk.runners import InMemoryRunner
    from google.genai.types import Content, Part

    from belljar.compat.adk import BelljarCodeExecutor

    asked = []

    class Scripted(BaseLlm):
        async def generate_content_async(self, llm_request, stream=False):
            asked.append(llm_request.contents)
            code = "```python\nopen('a.txt', 'w').write('x')\nprint(6 * 7)\n```\n"
            text = code if len(asked) == 1 else "It is 42."
            yield LlmResponse(content=Content(role="model", parts=[Part(text=text)]))

    model = Scripted(model="scripted")
    agent = Agent(name="math", model=model, code_executor=BelljarCodeExecutor())
    runner = InMemoryRunner(agent, app_name="app")
    who = {"app_name": "app", "user_id": "user"}
    session = await runner.session_service.create_session(**who)
    question = Content(role="user", parts=[Part(text="Six times seven?")])
    events = runner.run_async(user_id="user", session_id=session.id, new_message=question)
    parts = [part async for event in events if event.content for part in event.content.parts]
    assert parts[0].executable_code.code.endswith("print(6 * 7)")
    assert parts[1].code_execution_result.outcome.value == "OUTCOME_OK"
    assert "42" in asked[1][-1].parts[0].text
    assert parts[-1].text == "It is 42."
    kept = await runner.artifact_service.list_artifact_keys(**who, session_id=session.id)
    assert kept == ["a.txt"]


@pytest.mark.asyncio
async def test_pydantic_ai():
    pytest.importorskip("pydantic_ai", reason="pydantic-ai-slim is not installed")
    from pydantic_ai import Agent, BinaryContent, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    from belljar.compat.pydantic_ai import BelljarToolset

    codes = iter(
        [
            "x = 20",
            "import matplotlib.pyplot as plt\nlines = plt.plot([x])\nplt.show()\nprint(x + 1)",
        ]
    )
    seen = []

    def model(messages, info):
        seen.append((messages, info))
        code = next(codes, None)
        if code is None:
            return ModelResponse(parts=[TextPart("21")])
        return ModelResponse(parts=[ToolCallPart("run_python", {"code": code})])

    toolset = BelljarToolset(timeout=5)
    agent = Agent(FunctionModel(model), toolsets=[toolset])
    assert (await agent.run("Add.")).output == "21"
    [tool] = seen[0][1].function_tools
    assert tool.parameters_json_schema["required"] == ["code"]
    last = seen[-1][0][-1]
    assert last.parts[0].content.startswith("21\n")
    pictures = [
        item for part in last.parts for item in _contents(part) if isinstance(item, BinaryContent)
    ]
    assert [picture.media_type for picture in pictures] == ["image/png"]
    toolset.close()
    toolset = BelljarToolset(limits=belljar.Limits(timeout=0.3))
    told = (await toolset.run_python("while True: pass")).return_value
    assert "timed out after 0.3 seconds" in told
    toolset.close()
    with pytest.raises(TypeError, match=r"memory_mb.*twice"):
        BelljarToolset(memory_mb=64, limits=belljar.Limits(memory_mb=64))


def test_agent_sandbox():
    pytest.importorskip("k8s_agent_sandbox", reason="k8s-agent-sandbox is not installed")
    from k8s_agent_sandbox import SandboxClient, exceptions
    from k8s_agent_sandbox.commands.command_executor import CommandExecutor
    from k8s_agent_sandbox.files.filesystem import Filesystem
    from k8s_agent_sandbox.sandbox import Sandbox
    from kubernetes.client import ApiException

    from belljar.compat import agent_sandbox as ours

    # Calls for the package work here: the same names, in the same order.
    for theirs, own in (
        (SandboxClient, ours.BelljarSandboxClient),
        (Sandbox, ours.BelljarSandbox),
        (CommandExecutor, ours.Commands),
        (Filesystem, ours.Files),
    ):
        for name in (name for name in vars(own) if not name.startswith("_")):
            expected = getattr(theirs, name)
            if callable(expected):
                took = inspect.signature(expected).parameters
                assert list(inspect.signature(getattr(own, name)).parameters) == list(took), name

    with ours.BelljarSandboxClient(images={"pool": "core"}) as client:
        sandbox = client.create_sandbox("pool", labels={"app": "a"}, env={"A": "b"})
        sandbox.files.write("app/main.py", "import os, sys\nprint(sys.argv, os.environ['A'])\n")
        ran = sandbox.commands.run("python app/main.py x")
        assert (ran.stdout, ran.stderr, ran.exit_code) == ("['app/main.py', 'x'] b\n", "", 0)
        ran = sandbox.commands.run("python main.py", env={"A": "c"}, cwd="app")
        assert ran.stdout == "['main.py'] c\n"
        failed = sandbox.commands.run("python -c 'import sys; 1 / 0'")
        assert failed.exit_code == 1
        assert "ZeroDivisionError" in failed.stderr
        late = sandbox.commands.run("python -c 'while True: pass'", command_timeout=0.5)
        assert (late.exit_code, late.timed_out) == (124, True)
        shell = sandbox.commands.run("ls | head")
        assert shell.exit_code == 127
        assert "there is no shell" in shell.stderr

        assert sandbox.files.read("app/main.py").startswith(b"import os")
        assert [(entry.name, entry.type) for entry in sandbox.files.list(".")] == [
            ("app", "directory")
        ]
        assert sandbox.files.exists("app")
        assert not sandbox.files.exists("b")
        with pytest.raises(exceptions.SandboxRequestError) as missing:
            sandbox.files.read("b")
        assert missing.value.status_code == 404
        with pytest.raises(ValueError, match="is not below"):
            sandbox.files.write("../b", b"")
        with pytest.raises(exceptions.SandboxRequestError, match="directory"):
            sandbox.files.delete("app")
        copied = io.BytesIO()
        with pytest.raises(RuntimeError, match="more than 3 bytes"):
            sandbox.files.read_to("app/main.py", copied, max_bytes=3)
        assert copied.getvalue() == b"imp"
        sandbox.files.delete("app", recursive=True)
        assert sandbox.files.list("") == []

        claim = sandbox.claim_name
        assert client.list_active_sandboxes() == [("default", claim)]
        assert client.list_all_sandboxes(label_selector="app=a") == [claim]
        assert client.list_all_sandboxes(label_selector="app=b") == []
        sandbox.close_connection()
        assert (sandbox.commands, client.list_active_sandboxes()) == (None, [])
        assert client.get_sandbox(claim).commands.run("python -c 'print(1)'").stdout == "1\n"
        with pytest.raises(exceptions.SandboxWarmPoolNotFoundError):
            client.create_sandbox("another")
        named = client.create_sandbox("pool", claim_name="mine")
        with pytest.raises(ApiException) as taken:
            client.create_sandbox("pool", claim_name="mine")
        assert taken.value.status == 409
        assert client.create_sandbox("pool", claim_name="mine", adopt_existing=True) is named
    # Named sandboxes belong to their caller.
    assert client.list_all_sandboxes() == ["mine"]
    client.delete_all()
    assert named.status()[0] == "SandboxNotFound"
    with pytest.raises(exceptions.SandboxNotFoundError):
        client.get_sandbox("mine")


def test_deepagents():
    pytest.importorskip("deepagents", reason="deepagents is not installed")
    from deepagents.backends.protocol import SandboxBackendProtocol

    from belljar.compat.deepagents import BelljarSandbox

    sandbox = BelljarSandbox(timeout=20, image="core")
    assert isinstance(sandbox, SandboxBackendProtocol)
    assert (
        sandbox.write(
            "/workspace/app/main.py", "import sys, helper\nprint(helper.X, sys.argv)\n"
        ).error
        is None
    )
    assert sandbox.write("/workspace/app/helper.py", "X = 1\n").path == "/workspace/app/helper.py"
    ran = sandbox.execute("python app/main.py 'a b'")
    assert (ran.output, ran.exit_code) == ("1 ['app/main.py', 'a b']\n", 0)
    # A module that has changed is read again, and nothing else is left of an earlier command.
    assert sandbox.edit("/workspace/app/helper.py", "1", "2").occurrences == 1
    assert sandbox.execute("cd app && python3 main.py").output == "2 ['main.py']\n"
    assert sandbox.execute("python -c 'x = 1'").exit_code == 0
    ran = sandbox.execute("python - <<'END'\nprint(x)\nEND")
    assert ran.exit_code == 1
    assert "NameError" in ran.output
    assert sandbox.execute("python -c 'import sys; print(3); sys.exit(3)'").exit_code == 3
    assert sandbox.execute("python -c 'while True: pass'", timeout=1).exit_code == 124
    short = BelljarSandbox(image="core", limits=belljar.Limits(timeout=0.3))
    assert short.execute("python -c 'while True: pass'").exit_code == 124
    short.close()
    for command in (
        "ls -l",
        "python app/main.py | head",
        "python",
        "python 'open",
        "python a.py > b",
    ):
        ran = sandbox.execute(command)
        assert (ran.exit_code, "there is no shell" in ran.output) == (127, True), command

    assert [entry["path"] for entry in sandbox.ls("/").entries] == ["/workspace/"]
    listed = {entry["path"]: entry for entry in sandbox.ls("/workspace/app").entries}
    assert listed["/workspace/app/helper.py"]["size"] == 6
    window = sandbox.read("/workspace/app/main.py", offset=1, limit=1)
    assert (window.start_line, window.total_lines) == (2, 2)
    assert window.file_data["content"] == "print(helper.X, sys.argv)\n"
    assert "appears 2 times" in sandbox.edit("/workspace/app/main.py", "helper", "x").error
    found = sandbox.grep("helper", "/workspace", "*.py")
    assert [(match["path"], match["line"]) for match in found.matches] == [
        ("/workspace/app/main.py", 1),
        ("/workspace/app/main.py", 2),
    ]
    assert sandbox.grep("helper", max_count=1).truncated
    assert [one["path"] for one in sandbox.glob("*.py", "/workspace/app").matches] == [
        "/workspace/app/helper.py",
        "/workspace/app/main.py",
    ]
    assert "Invalid glob pattern" in sandbox.glob("{a,b}" * 30).error
    uploads = sandbox.upload_files([("/workspace/data.bin", b"\xff\0"), ("/etc/passwd", b"")])
    assert [one.error for one in uploads] == [None, "invalid_path"]
    paths = ["/workspace/data.bin", "/workspace/app", "/workspace/none", "/workspace/../etc"]
    downloads = sandbox.download_files(paths)
    assert [(one.content, one.error) for one in downloads] == [
        (b"\xff\0", None),
        (None, "is_directory"),
        (None, "file_not_found"),
        (None, "invalid_path"),
    ]
    assert sandbox.read("/workspace/data.bin").file_data["encoding"] == "base64"
    assert sandbox.delete("/workspace/app").error is None
    assert sandbox.delete("/workspace/app").error
    assert sandbox.glob("**/*.py").matches == []
    sandbox.close()


def _contents(part):
    content = getattr(part, "content", None)
    return content if isinstance(content, list) else []


def test_inspect(tmp_path):
    inspect_ai = pytest.importorskip("inspect_ai", reason="inspect_ai is not installed")
    from inspect_ai.dataset import Sample
    from inspect_ai.solver import solver
    from inspect_ai.util import sandbox

    from belljar.compat.inspect_ai import BelljarConfig

    seen = {}

    @solver
    def works():
        async def solve(state, generate):
            box = sandbox()
            assert await box.read_file("given.txt") == "given"
            await box.write_file("app/main.py", "import sys\nprint(sys.argv, input())")
            ran = await box.exec(["python3", "main.py", "a b"], input="in", cwd="app")
            assert (ran.success, ran.stdout) == (True, "['main.py', 'a b'] in\n")
            ran = await box.exec(["bash", "--login", "-c", "python3 -"], input="print(6 * 7)")
            assert (ran.returncode, ran.stdout) == (0, "42\n")
            ran = await box.exec(
                ["python", "-c", "import os, sys; sys.exit(os.environ['X'])"], env={"X": "bad"}
            )
            assert (ran.success, ran.returncode) == (False, 1)
            assert "bad" in ran.stderr
            ran = await box.exec(["ls", "-l"])
            assert (ran.returncode, "there is no shell" in ran.stderr) == (127, True)
            with pytest.raises(TimeoutError):
                await box.exec(["python", "-c", "while True: pass"], timeout=1)
            with pytest.raises(IsADirectoryError):
                await box.write_file("app", "x")
            ran = await box.exec(["python", "-c", "print('x' * (2 << 20))"], input=b"\xff")
            assert len(ran.stdout) == (2 << 20) + 1
            await box.write_file("/workspace/b", b"\xff")
            assert await box.read_file("b", text=False) == b"\xff"
            for file, error in (
                ("b", UnicodeDecodeError),
                ("none", FileNotFoundError),
                ("app", IsADirectoryError),
                ("/etc/passwd", PermissionError),
                ("../x", PermissionError),
            ):
                with pytest.raises(error):
                    await box.read_file(file)
            seen["done"] = True
            return state

        return solve

    samples = [Sample(input="go", target="", files={"given.txt": "given"})]
    config = BelljarConfig(image="core", timeout=20)
    task = inspect_ai.Task(dataset=samples, solver=works(), sandbox=("belljar", config))
    (log,) = inspect_ai.eval(task, model="mockllm/model", log_dir=str(tmp_path), display="none")
    assert log.status == "success", log.error
    assert seen == {"done": True}
