"""Compiles the code, and maps frames back to its source.

All user code is `<string>`, with the user's line numbers. Code objects are identified by identity,
because `exec` inside user code creates others of the same name.
"""

import ast
import linecache
import re
import sys

FILENAME = "<string>"
# Statements that are expressions, or may contain some.
_WITH_EXPRESSIONS = (
    ast.AsyncFor,
    ast.AsyncWith,
    ast.Expr,
    ast.For,
    ast.If,
    ast.Match,
    ast.Try,
    ast.TryStar,
    ast.While,
    ast.With,
)
_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_TREE = ast.PyCF_ONLY_AST | _AWAIT
_KEPT = 200
# Statements that contain others, and lines that contain none; a `;` precedes more on the same line.
_NO_SIMPLE_LINE = re.compile(
    r"\s*(?:$|[#@]|(?:async|class|def|for|if|match|try|while|with)\b)|.*(?:[\r\f\\;]|\n\s*\S)",
    re.DOTALL,
)

# (root code object, its source, its number as a cell) of each run of this interpreter, oldest
# first.
_programs = []
_register = getattr(linecache, "_register_code", None)


def dedent(code):
    """Remove the common indentation from code in which all lines are indented.

    Comments may start in any column.
    """
    if code[:1] not in (" ", "\t", "\n", "\r", "\f", "#"):
        return code
    margin = None
    lines = code.splitlines(keepends=True)
    for line in lines:
        text = line.lstrip(" \t")
        if not text.strip() or line.startswith("#"):
            continue
        indent = line[: len(line) - len(text)]
        margin = indent if margin is None else _common(margin, indent)
        if not margin:
            return code
    if not margin:
        return code
    return "".join(line.removeprefix(margin) if line.strip() else "\n" for line in lines)


def _common(one, other):
    size = min(len(one), len(other))
    for index in range(size):
        if one[index] != other[index]:
            return one[:index]
    return one[:size]


def parse(code):
    return compile(code, FILENAME, "exec", _TREE, dont_inherit=True)


def translate(code, echo, tree=None):
    """The code object for a run; `tree` is the parsed code if it was parsed before."""
    if echo == "none":
        return compile(tree or code, FILENAME, "exec", _AWAIT, dont_inherit=True)
    if tree is None and not _NO_SIMPLE_LINE.match(code):
        # A single statement, which shows at most its own value, needs no tree.
        try:
            return compile(code, FILENAME, "single", _AWAIT, dont_inherit=True)
        except (SyntaxError, ValueError):
            pass  # what is said of it is said of code that is parsed as a whole
    tree = echoing(tree or parse(code), code, echo)
    return compile(tree, FILENAME, "single", _AWAIT, dont_inherit=True)


def echoing(tree, code, echo):
    """The tree as an interactive statement list, which passes expressions to `sys.displayhook`.

    An interactive list passes every expression statement outside of functions, including those in
    loops and branches. Statements that must not be shown are put into a `match` without cases,
    which evaluates its subject and drops it.
    """
    body = tree.body
    shown = {id(node) for node in body if isinstance(node, ast.Expr)}
    if echo != "all":
        last = body[-1] if body else None
        shown = {id(last)} if id(last) in shown and not _ends_in_semicolon(last, code) else set()
    hide = _Hide(shown)
    return ast.Interactive(
        body=[hide.visit(node) if isinstance(node, _WITH_EXPRESSIONS) else node for node in body]
    )


def _ends_in_semicolon(node, code):
    line = code.splitlines()[node.end_lineno - 1].encode("utf-8", "surrogatepass")
    return line[node.end_col_offset :].lstrip().startswith(b";")


class _Hide(ast.NodeTransformer):
    def __init__(self, shown):
        self._shown = shown

    def visit_Expr(self, node):
        if id(node) in self._shown:
            return node
        case = ast.match_case(pattern=ast.MatchAs(), body=[ast.Pass()])
        match = ast.Match(subject=node.value, cases=[case])
        for part in (match, case.pattern, case.body[0]):
            ast.copy_location(part, node)
        return match

    def _keep(self, node):
        return node

    # Bodies with their own scope are not part of the interactive list; expressions have no body.
    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _keep
    visit_Assign = visit_AugAssign = visit_AnnAssign = visit_Return = visit_Delete = _keep


def remember(code, source, number=None):
    """Register the source, for our tracebacks and for `inspect` in user code."""
    if _programs and _is_forgotten(_programs[-1]):
        del _programs[-1]
    if len(_programs) >= _KEPT:
        del _programs[0]
    _programs.append((code, source, number))
    if _register is not None:
        _register(code, source, FILENAME)
    else:
        lines = [line + "\n" for line in source.splitlines()]
        linecache.cache[FILENAME] = (len(source), None, lines, FILENAME)


def _references(program, count=sys.getrefcount):
    return count(program[0])


_ITS_OWN = _references((compile("0", FILENAME, "eval"),))


def _is_forgotten(program):
    """Whether only this module still references the code: no frame, function or traceback."""
    code = program[0]
    if any(type(const) is type(code) for const in code.co_consts):
        return False
    del code
    return _references(program) <= _ITS_OWN


def forget():
    _programs.clear()


def latest():
    """The source of the current code."""
    return _programs[-1][1] if _programs else ""


def source_of(code):
    """The source of a code object, or None if it is not the user's."""
    for root, source, _ in reversed(_programs):
        if _contains(root, code):
            return source
    return None


def number_of(code):
    """The number of a code object's cell, or None."""
    for root, _, number in reversed(_programs):
        if _contains(root, code):
            return number
    return None


def _contains(root, wanted):
    return any(code is wanted for code in parts(root))


def mentions(root, name):
    """Whether the code, or a function in it, uses a global variable or attribute of that name."""
    return any(name in code.co_names for code in parts(root))


def parts(root):
    """The code object and all nested ones."""
    found, kind = [root], type(root)
    for code in found:
        found += [const for const in code.co_consts if type(const) is kind]
    return found


def is_root(code):
    """Whether it is the current code itself, not a function in it."""
    return bool(_programs) and _programs[-1][0] is code


def is_current(code):
    """Whether it belongs to the current code, not to an earlier run of the session."""
    return bool(_programs) and _contains(_programs[-1][0], code)


def user_line(frame):
    """The line of the innermost frame of the current code, seen from `frame`, or None."""
    while frame is not None:
        code = frame.f_code
        if code.co_filename == FILENAME and is_current(code):
            return frame.f_lineno
        frame = frame.f_back
    return None
