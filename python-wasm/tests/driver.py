"""The host's part in a separate process: boots the runner and passes it requests.

Started as `python -c "import driver; driver.main()" SPEC`, so that `__main__` is as empty as in an
image. Frames leave through a descriptor that the code does not close.
"""

import json
import os
import pathlib
import sys
import types

RUNNER = pathlib.Path(__file__).parent.parent / "runner"
FRAMES = 50
_OWN = ("code", "entropy")


def modules():
    """The names and sources of the runner's modules, as `build.rs` lists them."""
    paths = sorted(path.relative_to(RUNNER).with_suffix("") for path in RUNNER.rglob("*.py"))
    names = [".".join(path.parts) for path in paths]
    return [
        [name, (RUNNER / f"{name.replace('.', '/')}.py").read_text()]
        for name in names
        if name != "bootstrap"
    ]


def _lines(request):
    """In the host's format: the part that most runs share, and the rest."""
    own = {name: request.pop(name) for name in _OWN if name in request}
    return json.dumps(request).encode() + b"\n" + json.dumps(own).encode()


def main():
    spec = json.loads(pathlib.Path(sys.argv[1]).read_text())
    requests = [_lines(json.loads(one)) for one in spec["requests"]]
    number = -1
    write = os.write

    def call(data):
        nonlocal number
        op, payload = data[:1], data[1:]
        if op == b"l":
            return json.dumps({"modules": modules()}).encode()
        if op == b"r":
            number += 1
            return requests[number]
        # Several pandas objects may come in one frame.
        for line in payload.split(b"\n") if op == b"d" else (payload,):
            write(FRAMES, b"%d %s %s\n" % (number, op, line))
        return b""

    host = types.ModuleType("_host")
    host.call = call
    sys.modules["_host"] = host
    turn = sys.modules["__main__"].__dict__
    exec((RUNNER / "bootstrap.py").read_text(), turn)
    exec(spec["bake"], {})
    run = sys.modules["_belljar"].run
    if spec["seal"]:
        sys.modules["_belljar"].seal()
    for _ in requests:
        run()
    os._exit(0)
