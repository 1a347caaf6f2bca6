"""Stateless runs: inputs and results."""

import copy
import pickle
import threading
import time
from pathlib import Path

import pytest

import belljar
from belljar.agent import Limits as TaskLimits


def test_the_default_runtime_runs_code():
    run = belljar.run("print('hello')\nresult = 6 * 7")
    assert run.success
    assert run.stdout == "hello\n"
    assert run.result == 42
    assert run.error is None
    assert belljar.default_runtime() is belljar.default_runtime()


def test_what_code_does_wrong_is_data(runtime):
    run = runtime.run("print('so far')\n1 / 0", image="core")
    assert not run.success
    assert run.stdout == "so far\n"
    assert str(run.error) == "ZeroDivisionError: division by zero"
    assert run.error.kind == "exception"
    assert run.error.type == "ZeroDivisionError"
    assert run.error.line == 2
    assert run.error.traceback.startswith("Traceback")
    assert run.error.hint is None
    assert run.error.violations == ()


def test_an_error_can_be_raised(runtime):
    good = runtime.run("result = 1", image="core")
    assert good.raise_for_error() is good
    with pytest.raises(belljar.RunError, match=r"ZeroDivisionError: division by zero") as caught:
        runtime.run("print(1)\n1 / 0", image="core").raise_for_error()
    assert caught.value.error.line == 2
    assert caught.value.outcome.stdout == "1\n"
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.error) == (str(caught.value), caught.value.error)


def test_files_go_in_and_out(runtime, tmp_path):
    (tmp_path / "c.txt").write_text("three")
    code = """
import os
os.makedirs("out")
whole = open("a.txt").read() + open("sub/b.bin", "rb").read().decode() + open("c.txt").read()
open("out/all.txt", "w").write(whole)
"""
    files = {"a.txt": "one", "sub/b.bin": b"two", "c.txt": tmp_path / "c.txt"}
    run = runtime.run(code, image="core", files=files)
    assert run.error is None
    assert [file.path for file in run.files] == ["out/all.txt"]
    assert run.files[0].size == 11
    assert run["out/all.txt"] == b"onetwothree"
    assert "out/all.txt" in run
    assert "a.txt" not in run
    assert list(run) == ["out/all.txt"]
    copied = run.save(tmp_path / "saved")
    assert [path.read_bytes() for path in copied] == [b"onetwothree"]
    path = run.path("out/all.txt")
    assert path.read_text() == "onetwothree"
    run.close()
    assert not path.exists()
    with pytest.raises(ValueError, match="were removed"):
        run["out/all.txt"]


def test_a_file_that_is_not_there(runtime):
    run = runtime.run("1", image="core")
    with pytest.raises(belljar.NoSuchFileError, match=r"plot\.png") as caught:
        run["plot.png"]
    assert caught.value.code == "no_such_file"
    with pytest.raises(belljar.NoSuchFileError):
        run.path("plot.png")
    # Links do not lead out of the workspace.
    run = runtime.run("import os\nos.symlink('/etc/passwd', 'link')", image="core")
    with pytest.raises(belljar.NoSuchFileError):
        run["link"]


def test_memoryviews_and_wrong_contents(runtime):
    run = runtime.run("print(open('a').read())", image="core", files={"a": memoryview(b"seen")})
    assert run.stdout == "seen\n"
    with pytest.raises(TypeError, match="not int"):
        runtime.run("1", files={"a": 1})


def test_figures_are_files(runtime):
    run = runtime.run("import matplotlib.pyplot as plt\nplt.plot([1, 2])", timeout=60)
    assert run.error is None
    assert [plot.path for plot in run.plots] == ["plots/plot_1.png"]
    assert run["plots/plot_1.png"].startswith(b"\x89PNG")


def test_options_reach_the_engine(runtime):
    code = """
import os, sys
print(sys.argv[1:], os.environ["A"], os.environ["B"], os.getcwd(), sys.stdin.read())
print(extra)
answer = 3
1 + 1
"""
    run = runtime.run(
        code,
        image="core",
        args=("x", "y"),
        env={"A": "a"},
        run_env={"B": "b"},
        aliases=["/mnt/data"],
        cwd="/mnt/data",
        stdin="in",
        variables={"extra": (1, 2)},
        result="answer",
        echo="all",
        timeout=5,
        memory_mb=64,
        fuel=10**10,
        output_bytes=10_000,
        workspace_mb=1,
        max_files=10,
        threads="refuse",
    )
    assert run.error is None
    assert run.stdout == "['x', 'y'] a b /mnt/data in\n(1, 2)\n2\n"
    assert run.result == 3


@pytest.mark.here("a server reads no directories of its client")
def test_directories_are_mounted(runtime, tmp_path):
    (tmp_path / "shown.txt").write_text("mounted")
    run = runtime.run("print(open('/data/shown.txt').read())", mounts={"/data": tmp_path})
    assert run.stdout == "mounted\n"


def test_limits_hold(runtime):
    run = runtime.run("while True: pass", image="core", timeout=0.2)
    assert run.error.kind == "timeout"
    assert str(run.error) == "Code execution timed out after 0.2 seconds"
    run = runtime.run("while True: pass", image="core", fuel=50_000_000)
    assert run.error.kind == "fuel"
    run = runtime.run("x = bytearray(256 << 20)", image="core", memory_mb=128)
    assert run.error.kind == "memory"


def test_limits_are_options_or_one_object(runtime):
    endless, limits = "while True: pass", belljar.Limits(timeout=30, fuel=50_000_000)
    for held in (limits, {"timeout": 30, "fuel": 50_000_000, "memory_mb": None}):
        run = runtime.run(endless, image="core", limits=held)
        assert run.error.kind == "fuel"
    run = runtime.run(endless, image="core", limits=limits.replace(timeout=0.2, fuel=None))
    assert run.error.kind == "timeout"
    with runtime.session(image="core", limits=limits) as session:
        assert session.run(endless).error.kind == "fuel"
        nap = session.run("import time\ntime.sleep(5)", limits=belljar.Limits(timeout=0.2))
        assert nap.error.kind == "timeout"


def test_mistakes_in_limits_are_named(runtime):
    limits = belljar.Limits(timeout=30)
    for value in (1, None):
        with pytest.raises(TypeError, match=r"run has 'timeout' twice.*Limits\.replace"):
            runtime.run("1", timeout=value, limits=limits)
    with pytest.raises(TypeError, match="session has 'timeout' twice"):
        runtime.session(timeout=1, limits=limits)
    # Not given: the limits are.
    assert runtime.run("1", image="core", memory_mb=None, limits={"memory_mb": 128}).success
    with pytest.raises(TypeError, match="limits has no option 'timeuot'; did you mean 'timeout'"):
        runtime.run("1", limits={"timeuot": 1})
    with pytest.raises(TypeError, match=r"takes a belljar\.Limits .*, not belljar\.agent\.loop\."):
        runtime.run("1", limits=TaskLimits())


async def test_limits_are_those_of_asynchronous_runs(runtime):
    limits = belljar.Limits(fuel=50_000_000)
    assert (
        await runtime.arun("while True: pass", image="core", limits=limits)
    ).error.kind == "fuel"
    with await runtime.asession(image="core", limits=limits) as session:
        assert (await session.arun("while True: pass")).error.kind == "fuel"


def test_limits_are_an_immutable_mapping():
    limits = belljar.Limits(timeout=None, memory_mb=64, fuel=None)
    assert repr(limits) == "Limits(timeout=None, memory_mb=64)"
    assert dict(limits) == {"timeout": None, "memory_mb": 64} == limits
    assert limits == pickle.loads(pickle.dumps(limits)) == copy.deepcopy(limits)
    assert len({limits, belljar.Limits(memory_mb=64, timeout=None)}) == 1
    assert limits.replace(memory_mb=None, fuel=1) == {"timeout": None, "fuel": 1}
    assert limits["memory_mb"] == 64
    with pytest.raises(AttributeError):
        limits.timeout = 1
    with pytest.raises(TypeError, match="Limits has no option 'timeuot'; did you mean 'timeout'"):
        limits.replace(timeuot=1)


def test_a_timeout_of_none_leaves_the_ceiling(runtime):
    nap = "import time\ntime.sleep(0.6)"
    with runtime.session(image="core", timeout=0.2) as session:
        assert session.run(nap).error.kind == "timeout"
        assert session.run(nap, memory_mb=None, limits=None).error.kind == "timeout"
        assert session.run(nap, timeout=None).success
        assert session.run(nap, limits=belljar.Limits(timeout=None)).success
    with runtime.session(image="core", timeout=None) as session:
        assert session.run("import time\ntime.sleep(5.2)").success


@pytest.mark.parametrize("isolation", ["none", "process"])
def test_a_runtime_has_limits_for_runs_that_give_none(isolation):
    endless, ceilings = "while True: pass", belljar.Limits(timeout=0.5)

    def ended_after(limits, **options):
        settings = {"limits": limits, "ceilings": ceilings, "isolation": isolation}
        with belljar.Runtime(**settings) as runtime:
            return str(runtime.run(endless, image="core", **options).error)

    small, large = belljar.Limits(timeout=0.1), {"timeout": None}
    assert ended_after(small).endswith("after 0.1 seconds")
    assert ended_after(small, timeout=None).endswith("after 0.5 seconds")
    assert ended_after(large).endswith("after 0.5 seconds")
    with pytest.raises(TypeError, match="the timeout in ceilings is a number"):
        belljar.Runtime(ceilings={"timeout": None})


def test_policies(runtime):
    run = runtime.run("import os", image="core", policy="strict")
    assert run.error.kind == "policy"
    assert run.error.violations[0].message == "Forbidden import: os"
    assert run.error.violations[0].line == 1
    lists = {"imports": {"os"}, "forbidden_names": (), "forbidden_attributes": []}
    assert runtime.run("import os", image="core", policy=lists).success
    report = runtime.check("import os, torch\neval('1')", policy="strict")
    assert [found.message for found in report.violations] == [
        "Forbidden import: os",
        "Forbidden import: torch",
        "Forbidden operation: eval",
    ]
    assert report.missing_imports == ["torch"]
    assert runtime.check("x = 1").violations == ()


def test_seeds_make_runs_repeatable(runtime):
    code = "import random, time\nprint(random.random(), time.time())"
    one, two = (runtime.run(code, image="core", seed=7).outcome for _ in range(2))
    assert one == two
    assert runtime.run(code, image="core", seed=8).stdout != one.stdout
    options = {"seed": 7, "epoch": 0, "step_ns": 0}
    assert runtime.run(code, image="core", deterministic=options).stdout.endswith(" 0.0\n")
    assert runtime.run(code, image="core", deterministic=True).success


def test_captures(runtime):
    code = "import pandas as pd\ndf = pd.DataFrame({'a': [1, 2, 3]})\nopen('f', 'w').write('x')"
    run = runtime.run(code, capture={"table_rows": 2, "file_hashes": True, "events": True})
    [frame] = run.dataframes
    assert frame.name == "df"
    assert frame.table.rows == [[1], [2]]
    assert frame.table.truncated
    assert len(run.files[0].sha256) == 64
    assert [event.type for event in run.outcome.events] == ["started", "file_written", "ended"]
    assert runtime.run("1", image="core").outcome.events is None


def test_a_wrong_option_is_named(runtime):
    with pytest.raises(TypeError, match="no option 'timeuot'; did you mean 'timeout'"):
        runtime.run("1", timeuot=1)
    with pytest.raises(TypeError, match="option of its own"):
        runtime.run("1", capture={"typed": True})
    with pytest.raises(ValueError, match="unknown variant `loud`"):
        runtime.run("1", echo="loud")
    with pytest.raises(TypeError, match="not one text"):
        runtime.run("1", args="abc")
    with pytest.raises(TypeError, match="Runtime has no option 'cahce'; did you mean 'cache'"):
        belljar.Runtime(cahce="x")


def test_a_request_that_is_refused_has_every_reason(runtime):
    with pytest.raises(belljar.RefusedError) as caught:
        runtime.run("1", timeout=10_000, memory_mb=1 << 20, files={"../x": ""})
    error = caught.value
    assert isinstance(error, belljar.BelljarError)
    assert isinstance(error, ValueError)
    assert (error.code, error.blame) == ("refused", "caller")
    assert {reason.field for reason in error.reasons} == {
        "limits.timeout",
        "limits.memory",
        "files",
    }
    for timeout in (float("inf"), -1, 0):
        with pytest.raises(ValueError, match=r"timeout|infinity"):
            runtime.run("1", timeout=timeout)


def test_an_image_that_is_not_there(runtime):
    with pytest.raises(belljar.SetupError) as caught:
        runtime.run("1", image="nowhere")
    assert caught.value.code == "image.unknown"
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.code, str(again)) == (caught.value.code, str(caught.value))


def test_images(runtime):
    names = [image.name for image in runtime.images.list()]
    assert names[:2] == ["core", "data"]
    runtime.images.prepare("core")
    core = runtime.images.get("core")
    assert core.built_in
    assert core.memory_bytes > 1 << 20


def test_an_outcome_is_frozen_and_data(runtime):
    outcome = runtime.run("result = (1, {2: 3})", image="core").outcome
    with pytest.raises(AttributeError):
        outcome.success = False
    with pytest.raises(AttributeError):
        del outcome.success
    with pytest.raises(AttributeError):
        outcome.nothing  # noqa: B018
    document = outcome.to_dict()
    assert list(document)[:12] == [
        "success",
        "result",
        "stdout",
        "stderr",
        "files",
        "plots",
        "dataframes",
        "error",
        "error_detail",
        "code",
        "truncated",
        "usage",
    ]
    assert document["result"] == [1, {"2": 3}]
    document["success"] = False
    assert outcome.success
    again = pickle.loads(pickle.dumps(outcome))
    assert again == outcome
    assert hash(again) == hash(outcome)
    assert again.result == (1, {2: 3})
    assert copy.deepcopy(outcome) == outcome
    assert repr(outcome).startswith("Outcome(success=True, result=(1, {2: 3})")
    assert outcome.usage.wall_ms > 0


def test_a_run_is_no_data(runtime):
    run = runtime.run("1", image="core")
    for handle in (run, runtime, runtime.images):
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(handle)
    with pytest.raises(AttributeError):
        run.outcome = None
    with pytest.raises(TypeError):
        belljar.Run()
    with pytest.raises(TypeError):
        belljar.Session()


def test_the_gil_is_free_while_a_guest_runs(runtime):
    ticks = 0
    over = threading.Event()

    def count():
        nonlocal ticks
        while not over.wait(0.005):
            ticks += 1

    thread = threading.Thread(target=count)
    thread.start()
    try:
        runtime.run("while True: pass", image="core", timeout=0.5)
    finally:
        over.set()
        thread.join()
    assert ticks > 20


def test_threads_run_side_by_side(runtime):
    runtime.run("1", image="core")
    began = time.monotonic()
    runs = []
    threads = [
        threading.Thread(
            target=lambda: runs.append(runtime.run("import time\ntime.sleep(0.3)", image="core"))
        )
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(run.success for run in runs)
    assert len(runs) == 8
    assert time.monotonic() - began < 2


def test_the_queue_is_bounded():
    with belljar.Runtime(concurrency=1, queue=0) as narrow:
        blocker = threading.Thread(
            target=lambda: narrow.run("import time\ntime.sleep(1)", image="core")
        )
        narrow.run("1", image="core")
        blocker.start()
        time.sleep(0.3)
        with pytest.raises(belljar.BusyError):
            narrow.run("1", image="core")
        blocker.join()


def test_settings_reach_the_engine(tmp_path):
    settings = {"limits": {"timeout": 0.2}, "ceilings": {"timeout": 1, "memory_mb": 300}}
    with belljar.Runtime(**settings, temp_dir=tmp_path, sessions={"max": 1}) as runtime:
        assert runtime.run("while True: pass", image="core").error.kind == "timeout"
        with pytest.raises(belljar.RefusedError, match="1 s"):
            runtime.run("1", image="core", timeout=2)
        first = runtime.session(image="core")
        with pytest.raises(belljar.SessionError) as caught:
            runtime.session(image="core")
        assert caught.value.code == "session.too_many"
        first.close()
    with pytest.raises(belljar.ClosedError):
        runtime.run("1", image="core")
    with pytest.raises(TypeError):
        belljar.Runtime(limits={"time": 1})


def test_input_is_answered(runtime):
    asked = []

    def answer(prompt):
        asked.append(prompt)
        return "Ada" if len(asked) == 1 else None

    code = "print('Hello', input('Who? '))\ntry:\n    input()\nexcept EOFError:\n    print('end')"
    run = runtime.run(code, image="core", input=answer)
    assert run.stdout == "Who? Hello Ada\nend\n"
    assert asked == ["Who? ", ""]


def test_the_example_of_the_readme(tmp_path, monkeypatch, capsys):
    """README.md shows this example next to the command that does the same."""
    top = Path(__file__).parents[3]
    readme = (top / "README.md").read_text()
    example = readme.partition("```python\n")[2].partition("```")[0]
    assert "examples/sales.py" in example
    (tmp_path / "examples").symlink_to(top / "examples")
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "README.md", "exec"), {})
    shown = capsys.readouterr().out
    assert "East grows fastest: +36.9 % in a year" in shown
    assert shown.endswith("East\n")
    assert (tmp_path / "out" / "sales.png").read_bytes().startswith(b"\x89PNG")


def test_the_example_of_the_documentation():
    """The first example of docs/guide/python.md."""
    page = (Path(__file__).parents[3] / "docs" / "guide" / "python.md").read_text()
    example = page.partition("```python\n")[2].partition("```")[0]
    names = {}
    exec(compile(example, "docs/guide/python.md", "exec"), names)
    run = names["run"]
    assert run.error is None
    assert dict(run.result) == {"a": 2.0, "b": 5.0}


def test_the_types_of_options_are_those_that_are_read():
    from belljar import _options, _runtime, _types

    assert set(_types.RunOptions.__annotations__) == _options.RUN_OPTIONS
    assert set(_types.SessionOptions.__annotations__) == _options.SESSION_OPTIONS
    assert set(_types.Settings.__annotations__) == _runtime._SETTINGS
