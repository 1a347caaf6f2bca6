"""Checks code without running it: violations of a policy, and imports that are not available.

The answer has the form of a run's: a status frame with the violations, and as value the names of
modules that are neither installed nor in the workspace.
"""

import sys
from importlib.util import find_spec

from _belljar.protocol import guard, hooks
from _belljar.run import ending
from _belljar.source import namespaces, policy

_ANYTHING = {"imports": [], "forbidden_names": [], "forbidden_attributes": []}


def check(request):
    """The status frame's content and the missing modules; no modules for invalid code."""
    rules = request["policy"]
    try:
        violations, modules = policy.check(request["code"], rules or _ANYTHING)
    except BaseException as error:
        return ending.of_syntax_error(error, request["cwd"]), []
    namespaces.prepare(request, None)
    hooks.look_only()
    missing = [name for name in modules if not _is_there(name)]
    if rules is not None and violations:
        return ending.refused(violations), missing
    return ending.OK, missing


def _is_there(name):
    return name in sys.modules or guard.quietly(find_spec, name) is not None
