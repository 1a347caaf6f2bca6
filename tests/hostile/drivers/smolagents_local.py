"""smolagents' LocalPythonExecutor with default settings: an interpreter of syntax trees in this
process.
"""

from importlib.metadata import version

import common
from smolagents.local_python_executor import LocalPythonExecutor


def run(executor, code):
    try:
        done = executor(code)
        return "ok", done.logs, None, done.output
    except BaseException as failure:
        ended, text = common.kind(failure)
        logs = executor.state.get("_print_outputs", "")
        return ended, str(getattr(logs, "value", logs)), text, None


executors = {}
for code, who in common.parts():
    if who not in executors:
        executors[who] = LocalPythonExecutor([], timeout_seconds=max(1, round(common.TASK["timeout"])))
        executors[who].send_tools({"lookup": common.lookup})
    common.reply(f"smolagents {version('smolagents')}", lambda: run(executors[who], code))
