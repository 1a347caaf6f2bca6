"""The functions that the host calls: the names of the package `_belljar`, and the fast way to a
run.
"""

import sys

from _belljar.baking import (
    error_numbers,  # noqa: F401 (replaces numbers, before other imports compute with them)
    sealing,
)
from _belljar.protocol import replaced
from _belljar.run import runs
from _belljar.source import policy

_RUN = ('__import__("_belljar").run()', "__import__('_belljar').run()")


def publish(package):
    """Put the public functions into the package, and the runner in place."""
    package.run = runs.run
    package.install = sealing.install
    package.seal = sealing.seal
    package.check = policy.check
    package.hide = replaced.hide
    sealing.install()
    reactor = sys.modules.get("_reactor")
    if reactor is not None:
        reactor._run_turn = _turn_with(reactor._run_turn)


def _turn_with(usual):
    """The interpreter's own way parses, compiles and registers a run's source, with modules that
    the code may have replaced; the source of a run is always the same, so this is skipped.
    """

    def run_turn(text, name):
        if text in _RUN:
            runs.run()
        else:
            usual(text, name)

    return run_turn
