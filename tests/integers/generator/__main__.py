"""Writes calls of the libraries' public functions with large integers, and what they give here.

    python tests/integers/generator [LIBRARY ...]

runs on Linux with the libraries' versions of the artifact (`belljar licenses`), and writes
`tests/integers/calls/LIBRARY.tsv`: a call, a tab, and what it gave as JSON, a call a line.

Every call is tried in a forked child, as its function may crash, hang or change the process. It is
tried twice, the second time with the instructions of an older processor. Calls whose answers differ
are left out, and so are those that `unsuitable.txt` names. Where only the last places of a float
differ, and where `rounded.txt` says so, the line begins with `~`, as every line of the expressions
in `repeatable.py` and `draws.py` does.
"""

import importlib
import importlib.util
import itertools
import json
import math
import os
import re
import resource
import signal
import subprocess
import sys
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
CALLS = HERE.parent / "calls"
# Those whose expressions are listed, each in a module of its name.
LISTED = ("repeatable", "draws")
LIBRARIES = ("numpy", "pandas", "scipy", "sklearn", "statsmodels", *LISTED)
SECONDS = 0.4
LETTERS = 300
# Above what the libraries take when they are imported.
MEMORY = 400 << 20

# The second time: without the processor's wide vectors.
OLDER = {
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
    "OPENBLAS_CORETYPE": "Nehalem",
    "PYTHONHASHSEED": "5",
}
USUAL = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}


def program():
    """The program that evaluates expressions in the sandbox."""
    path = HERE.parents[1] / "programs" / "expressions.py"
    spec = importlib.util.spec_from_file_location("expressions", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.exact()
    return module


def in_child(texts, outcome):
    """What each text gives. A text that ends the child is left out."""
    found, texts = {}, list(texts)
    while texts:
        read, write = os.pipe()
        child = os.fork()
        if not child:
            os.close(read)
            evaluate(texts, outcome, os.fdopen(write, "w"))
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as lines:
            answers = [json.loads(line) for line in lines if line.endswith("\n")]
        os.waitpid(child, 0)
        found |= dict(answers)
        texts = texts[len(answers) + 1 :] if len(answers) < len(texts) else []
    return found


def evaluate(texts, outcome, pipe):
    silent = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silent, stream)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY,) * 2)
    for text in texts:
        # The default action ends the process, whatever it is doing.
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        try:
            answer = json.dumps(outcome(text), separators=(",", ":"))
        except Exception:
            answer = '["raises","Unwritten"]'
        signal.setitimer(signal.ITIMER_REAL, 0)
        pipe.write(json.dumps([text, answer]) + "\n")
        pipe.flush()


def tells(answer):
    """Whether an answer is a value that can be compared."""
    return (
        len(answer) <= LETTERS
        and not answer.startswith('["raises"')
        and not re.search(r"<[a-z]+ |0x[0-9a-f]{6}", answer)
    )


def prefixes(name):
    """What lines of a file begin with, as `startswith` takes it."""
    lines = (HERE / name).read_text().splitlines()
    return tuple(line for line in lines if line and not line.startswith("#"))


def chosen(texts, found, kept):
    """The calls to keep: first those with answers of their own, then others."""
    good = [text for text in texts if tells(found.get(text, '["raises"'))]
    answers, first, rest = set(), [], []
    for text in good:
        (rest if found[text] in answers else first).append(text)
        answers.add(found[text])
    return (first + rest)[:kept]


def first_pass(library):
    if library in LISTED:
        return together(list(importlib.import_module(library).expressions()))

    from subjects import subjects

    outcome = program().outcome
    unsuitable = prefixes("unsuitable.txt")
    taken = {}
    for name, texts, kept in subjects(library):
        texts = [text for text in dict.fromkeys(texts) if not text.startswith(unsuitable)]
        texts = texts[: 14 * max(kept, 1)]
        if not texts:
            continue
        # Its modules are imported once, and not by every child.
        outcome(texts[0].partition("(")[0])
        found = in_child(texts, outcome)
        for text in chosen(texts, found, kept):
            taken[text] = found[text]
        print(name, file=sys.stderr)
    return taken


def together(texts):
    """What each text gives, with its modules imported once, and not by every child."""
    module = program()
    found = {}
    for some in itertools.batched(texts, 40):
        for text in some:
            list(module.imported(text))
        found |= in_child(some, module.outcome)
    return found


def same(one, other, near):
    """Whether two answers are the same, floats up to `near` of the larger one."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other, [near] * len(one)))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k], near) for k in one)
    if one == other:
        return True
    try:
        return near > 0 and math.isclose(float(one), float(other), rel_tol=near)
    except (TypeError, ValueError):
        return False


def main(libraries):
    CALLS.mkdir(exist_ok=True)
    for library in libraries:
        taken = passed("first", library, USUAL)
        again = passed("second", library, USUAL | OLDER, json.dumps(list(taken)))
        rounded = prefixes("rounded.txt")
        with open(CALLS / f"{library}.tsv", "w") as file:
            written = 0
            for text, answer in taken.items():
                other = again.get(text, "[]")
                if not same(json.loads(answer), json.loads(other), 1e-9):
                    continue
                near = answer != other or library in LISTED or text.startswith(rounded)
                file.write(f"{'~' * near}{text}\t{answer}\n")
                written += 1
        print(library, len(taken), "calls,", written, "of them repeatable")


def passed(what, library, environment, given=""):
    run = subprocess.run(
        [sys.executable, __file__, "--pass", what, library],
        input=given, stdout=subprocess.PIPE, env=os.environ | environment, text=True, check=True,
    )  # fmt: skip
    return json.loads(run.stdout)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if sys.argv[1:2] == ["--pass"]:
        first = sys.argv[2] == "first"
        found = first_pass(sys.argv[3]) if first else together(json.load(sys.stdin))
        json.dump(found, sys.stdout)
    else:
        main(sys.argv[1:] or LIBRARIES)
