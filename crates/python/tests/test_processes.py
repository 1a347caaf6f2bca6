"""Processes: exit of the interpreter during runs, forks, subinterpreters, import."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

import belljar


def python(code, *, timeout=60, **options):
    """Runs a program in a new process."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        **options,
    )
    return done, time.monotonic() - began


def assert_clean(done):
    assert done.returncode == 0, (done.returncode, done.stderr)
    assert done.stderr == ""


ENDLESS = 'runtime.run("while True: pass", image="core", timeout=60)'


def test_exit_while_a_daemon_thread_waits_for_a_run():
    done, took = python(f"""
        import belljar, os, threading, time
        runtime = belljar.Runtime()
        def use():
            try:
                {ENDLESS}
            except belljar.ClosedError as error:
                # The exit may stop this thread between the parts of a print.
                os.write(1, error.code.encode())
        threading.Thread(target=use, daemon=True).start()
        time.sleep(0.5)
    """)
    assert_clean(done)
    assert done.stdout in ("closed", "")
    assert took < 20


def test_exit_while_a_loop_awaited_a_run():
    done, took = python("""
        import asyncio, belljar
        async def main():
            runtime = await belljar.Runtime.abuild()
            asyncio.ensure_future(runtime.arun("while True: pass", image="core", timeout=60))
            await asyncio.sleep(0.5)
        asyncio.run(main())
    """)
    assert_clean(done)
    assert took < 20


def test_exit_in_the_middle_of_events_and_tools():
    done, took = python("""
        import belljar, threading, time
        runtime = belljar.Runtime()
        def tool() -> int:
            time.sleep(0.01)
            return 1
        def use():
            try:
                runtime.run("import tools\\nwhile True: print(tools.tool())", image="core",
                            timeout=60, tools=[tool], on_event=lambda event: None,
                            tool_limits={"calls": 100000})
            except (belljar.ClosedError, RuntimeError):
                pass
        for _ in range(4):
            threading.Thread(target=use, daemon=True).start()
        time.sleep(0.7)
    """)
    assert done.returncode == 0, done.stderr
    assert "panicked" not in done.stderr
    assert "Fatal" not in done.stderr
    assert took < 20


def test_exit_with_everything_open():
    done, took = python("""
        import belljar
        session = belljar.default_runtime().session(image="core")
        run = session.run("open('a', 'w').write('x')")
        kept = belljar.run("open('a', 'w').write('x')", image="core")
        path = kept.path("a")
        print(path)
    """)
    assert_clean(done)
    assert took < 20
    # No files are left.
    assert not os.path.exists(done.stdout.strip())


def test_nothing_is_left_in_the_directory_for_temporary_files(tmp_path):
    done, _ = python(
        """
        import belljar
        runtime = belljar.Runtime()
        session = runtime.session(image="core")
        session.run("open('a', 'w').write('x' * 100000)")
        session.suspend()
        runtime.run("open('a', 'w').write('x')", image="core")
        """,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert_clean(done)
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_ends_a_program():
    program = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import belljar, sys\nruntime = belljar.Runtime()\nprint('ready', flush=True)\n"
            "try:\n    runtime.run('while True: pass', image='core', timeout=60)\n"
            "except KeyboardInterrupt:\n    print('interrupted')",
        ],
        stdout=subprocess.PIPE,
        text=True,
        # Background jobs of a shell ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert program.stdout.readline() == "ready\n"
    time.sleep(0.5)
    program.send_signal(signal.SIGINT)
    assert program.communicate(timeout=20)[0] == "interrupted\n"
    assert program.returncode == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_handles_after_a_fork():
    done, _ = python("""
        import asyncio, belljar, os, sys, warnings
        warnings.simplefilter("ignore")
        runtime = belljar.default_runtime()
        session = runtime.session(image="core", init_code="x = 1")
        run = runtime.run("open('a', 'w').write('text')", image="core")
        runtime.run("1", image="core", on_event=lambda event: None)
        async def use():
            await runtime.arun("1", image="core")
        asyncio.run(use())

        def refused(call):
            try:
                call()
            except belljar.ForkedError as error:
                assert error.code == "forked" and "another process" in str(error), error
                assert error.hint
            else:
                raise AssertionError("it was not refused")

        child = os.fork()
        if child == 0:
            status = 1
            try:
                refused(lambda: runtime.run("1"))
                refused(lambda: asyncio.run(use()))
                refused(lambda: session.run("1"))
                refused(lambda: session.get("x"))
                refused(session.interrupt)
                refused(runtime.sessions)
                refused(runtime.session)
                assert run["a"] == b"text"
                session.close()
                runtime.close()
                # A runtime of its own, the default one too.
                assert belljar.run("result = 1", image="core").result == 1
                assert belljar.default_runtime() is not runtime
                async def own():
                    return (await belljar.arun("result = 2", image="core")).result
                assert asyncio.run(own()) == 2
                status = 0
            finally:
                sys.stderr.flush()
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert session.get("x") == 1
        assert run["a"] == b"text"
    """)
    assert_clean(done)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_pool_of_processes():
    done, took = python("""
        import belljar, multiprocessing, warnings
        warnings.simplefilter("ignore")
        def square(n):
            return belljar.run(f"result = {n} ** 2", image="core").result
        if __name__ == "__main__":
            belljar.run("1", image="core")
            with multiprocessing.get_context("fork").Pool(2) as pool:
                assert pool.map(square, range(6)) == [0, 1, 4, 9, 16, 25]
    """)
    assert_clean(done)
    assert took < 40


def test_subinterpreters_are_refused():
    interpreters = pytest.importorskip(
        "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
    )
    done, _ = python(f"""
        import {interpreters.__name__} as interpreters
        import belljar
        code = "try:\\n    import belljar\\nexcept ImportError:\\n    print('refused', flush=True)"
        interpreters.run_string(interpreters.create(), code)
    """)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "refused\n"


def test_the_import_is_light():
    done, _ = python("""
        import sys
        before = set(sys.modules)
        import belljar
        heavy = {"asyncio", "inspect", "dataclasses", "numpy", "pandas", "pydantic", "json",
                 "logging", "concurrent.futures", "tempfile", "pathlib", "typing", "threading"}
        print(sorted(heavy & (set(sys.modules) - before)))
        assert dir(belljar) == sorted(belljar.__all__)
        for name in belljar.__all__:
            getattr(belljar, name)
        try:
            belljar.nothing
        except AttributeError as error:
            assert "nothing" in str(error)
    """)
    assert_clean(done)
    assert done.stdout == "[]\n"


def test_a_broken_cache_is_a_sentence(tmp_path):
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(belljar.SetupError) as caught:
        belljar.Runtime(cache=file)
    assert caught.value.code == "cache.not_a_directory"


def test_progress_is_told(tmp_path, monkeypatch, capfd):
    """A small setup: an image that is baked again."""
    steps = []
    recipe = tmp_path / "small.toml"
    recipe.write_text('name = "told"\nbase = "core"\nimports = ["fractions"]\n')
    with belljar.Runtime(progress=lambda text, seconds: steps.append((text, seconds))) as runtime:
        made = runtime.images.build(recipe)
        assert made.name == "told"
        assert not made.built_in
        runtime.images.remove("told")
    assert steps[0][0] == "baking image told"
    assert steps[0][1] > 0
    assert steps[-1][0] is None
    assert capfd.readouterr().err == ""
