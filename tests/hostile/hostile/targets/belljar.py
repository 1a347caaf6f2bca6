"""Shared by the adapters for belljar: requests and outcomes in JSON."""

import json

from ..judge import ASKED, Answer

# Keys of an outcome whose text the program chooses. All others come from the host. The program
# names its files, but the host confirms that they exist, which the adapters check.
GUESTS = (
    "result", "stdout", "stderr", "dataframes", "error", "error_detail", "code", "tool_calls", "typed",
    "files", "plots",
)
KINDS = {"timeout": "timeout", "fuel": "timeout", "memory": "memory", "output": "output", "crash": "crash",
         "waiting": "waiting", "interrupted": "timeout"}
LOOKUP = {
    "name": "lookup",
    "description": "Looks a key up.",
    "schema": {
        "type": "object",
        "properties": {"key": {"type": "string", "maxLength": 64}},
        "required": ["key"],
        "additionalProperties": False,
    },
}
HONEST = {"code": "print(6 * 7)", "timeout": 10}


def request(program, code):
    asked = {
        "code": code,
        "timeout": program.timeout,
        "memory_mb": ASKED["memory_mib"],
        "output_bytes": ASKED["output_bytes"],
        "workspace_mb": ASKED["workspace_mib"],
        "max_files": ASKED["files"],
    }
    if program.tools:
        asked |= {"tools": [LOOKUP], "deterministic": {}}
    return asked


def answer(text, seconds):
    """Parses an outcome like a caller, and separates the host's words from the program's."""
    one = Answer(size=len(text), seconds=seconds)
    try:
        outcome = json.loads(text.decode())
        guest = {key: outcome[key] for key in GUESTS if key in outcome}
        one.guest = json.dumps(guest, ensure_ascii=False)
        one.guest.encode()
        one.host = json.dumps({k: v for k, v in outcome.items() if k not in GUESTS}, allow_nan=False)
        detail = outcome["error_detail"]
        one.ended = "ok" if outcome["success"] else KINDS.get(detail["kind"], "error")
        one.stdout = outcome["stdout"]
        one.error = "" if outcome["success"] else f"{outcome['error']}\n{detail['type']}: {detail['message']}"
        calls = outcome.get("tool_calls", [])
        one.tool_calls = len(calls)
    except (ValueError, KeyError, TypeError, RecursionError, AttributeError) as error:
        one.unreadable = f"{type(error).__name__}: {error}: {text[:200]!r}"
    return one


def with_tools(program, asked, ask):
    """Answers all tool calls that an outcome waits for; `ask` runs a request."""
    calls = {}
    bad = 0
    for _ in range(200):
        one, outcome = ask(asked | {"answers": list(calls.values())})
        if one.ended != "waiting":
            break
        for call in outcome["tool_calls"]:
            if call["id"] in calls or call["error"]["kind"] != "waiting":
                continue
            if len(calls) == 20:  # The caller decides on each call, and makes no more.
                one.tool_calls, one.bad_tool_calls = len(calls), bad
                return one
            key = call["arguments"].get("key") if isinstance(call["arguments"], dict) else None
            bad += call["name"] != "lookup" or not isinstance(key, str) or len(key) > 64
            calls[call["id"]] = {"id": call["id"], "answer": f"value of {key}"}
    one.tool_calls, one.bad_tool_calls = len(calls), bad
    return one
