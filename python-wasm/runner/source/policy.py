"""Checks a policy's lists on the syntax tree, and guards imports at run time.

This is a convenience for the caller. Isolation is provided by the sandbox, never by this check.
"""

import ast
import builtins
import sys
import types

from _belljar.source import sources

_import = builtins.__import__
_modules = sys.modules


class SecurityError(Exception):
    """The error reported for a rejected program; never raised."""


def check(code, policy):
    """All violations of `policy` in `code`, by line, and the top-level modules it imports.

    Raises the compiler's error for invalid code.
    """
    return inspect(sources.parse(sources.dedent(code)), policy)


def inspect(tree, policy):
    finder = _Finder(policy)
    finder.visit(tree)
    finder.violations.sort(key=lambda violation: violation["line"])
    return finder.violations, sorted(finder.modules)


def summary(violations):
    """One line that lists each violation once."""
    return "; ".join(dict.fromkeys(violation["message"] for violation in violations))


class _Finder(ast.NodeVisitor):
    def __init__(self, policy):
        self.violations = []
        self.modules = set()
        self._imports = frozenset(policy["imports"])
        self._names = frozenset(policy["forbidden_names"])
        self._attributes = frozenset(policy["forbidden_attributes"])

    def _violation(self, node, kind, word, name):
        message = f"Forbidden {word}: {name}"
        self.violations.append(
            {"kind": kind, "name": name, "line": node.lineno, "message": message}
        )

    def visit_Import(self, node):
        for alias in node.names:
            self._module(node, alias.name)

    def visit_ImportFrom(self, node):
        if node.level:
            self._violation(node, "import", "import", "." * node.level + (node.module or ""))
            return
        self._module(node, node.module)
        for alias in node.names:
            self._word(node, alias.name)

    def _module(self, node, name):
        root = name.partition(".")[0]
        self.modules.add(root)
        if not allowed(name, self._imports):
            self._violation(node, "import", "import", root)

    def visit_Name(self, node):
        self._word(node, node.id)

    def _word(self, node, name):
        if name in self._names:
            self._violation(node, "name", "operation", name)
        elif name in self._attributes:
            self._attribute(node, name)

    def visit_Attribute(self, node):
        self._attribute(node, node.attr)
        self.generic_visit(node)

    def _attribute(self, node, name):
        if name in self._attributes:
            self._violation(node, "attribute", "attribute", name)

    def visit_MatchClass(self, node):
        for name in node.kwd_attrs:
            self._attribute(node, name)
        self.generic_visit(node)

    def visit_Call(self, node):
        self.generic_visit(node)
        match node:
            case ast.Call(
                func=ast.Name(id="getattr" | "setattr" | "delattr" | "hasattr"),
                args=[_, ast.Constant(value=str(name)), *_],
            ):
                self._attribute(node, name)


def allowed(name, imports):
    """Whether the module, or a package that contains it, is on the list."""
    while name not in imports:
        name, dot, _ = name.rpartition(".")
        if not dot:
            return False
    return True


def namespace(policy):
    """The builtins for code under this policy: the usual ones, with a guarded `__import__`."""
    limited = dict(builtins.__dict__)
    for name in policy["forbidden_names"]:
        limited.pop(name, None)
    limited["__import__"] = _guarded(frozenset(policy["imports"]))
    return limited


def _guarded(imports):
    def guarded_import(name, globals=None, locals=None, fromlist=(), level=0):
        # C functions that import modules also call this, always with a list.
        if type(fromlist) is list:
            return _import(name, globals, locals, fromlist, level)
        if level == 0 and not allowed(name, imports):
            raise _refusal(name)
        module = _import(name, globals, locals, fromlist, level)
        # A module imported by an allowed one is not itself allowed.
        for item in fromlist or ():
            found = getattr(module, item, None)
            if type(found) is not types.ModuleType or _modules.get(f"{name}.{item}") is found:
                continue
            if not allowed(found.__name__, imports):
                raise _refusal(found.__name__)
        return module

    guarded_import.__name__ = guarded_import.__qualname__ = "__import__"
    return guarded_import


def _refusal(name):
    root = name.partition(".")[0]
    return ImportError(f"Import of '{root}' is not allowed", name=name)
