"""Runs one module of CPython's tests in a sandbox and prints a line of JSON for each test."""

import importlib
import json
import os
import sys
import unittest

sys.path.insert(0, "/suite")


def tell(test: str, ending: str, why: object = "") -> None:
    # Past `sys.stdout`, which tests replace.
    os.write(1, (json.dumps(["result", test, ending, str(why)[-200:]]) + "\n").encode())


class Result(unittest.TestResult):
    def addSuccess(self, test):
        tell(test.id(), "passed")

    def addExpectedFailure(self, test, err):
        tell(test.id(), "passed")

    def addSkip(self, test, reason):
        tell(test.id(), "skipped", reason)

    def addError(self, test, err):
        tell(test.id(), "failed", repr(err[1]))

    addFailure = addError

    def addUnexpectedSuccess(self, test):
        tell(test.id(), "failed", "it passed, which was not expected")


def main(name: str) -> None:
    sys.argv = [name]
    try:
        module = importlib.import_module(f"test.{name}")
    except unittest.SkipTest as error:
        tell(f"test.{name}", "skipped", error)
        return
    unittest.defaultTestLoader.loadTestsFromModule(module).run(Result())
    tell(f"test.{name}", "ended")


main(os.environ["MODULE"])
