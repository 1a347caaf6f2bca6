"""The guarantees of stores, tested on emulators of S3 and Azure if they are on this machine.

BELLJAR_STORES_TEST names the unit tests of `belljar-stores`, compiled with the feature `objects`.
"""

import os
import subprocess

import pytest
from conftest import object_store

TESTS = os.environ.get("BELLJAR_STORES_TEST")


@pytest.mark.skipif(not TESTS, reason="BELLJAR_STORES_TEST names no tests")
@pytest.mark.parametrize("kind", ["s3", "azure"])
def test_a_store_keeps_the_contract(kind):
    server = object_store(kind)
    environment = os.environ | server.environment | {"BELLJAR_TEST_STORE": server.url}
    done = subprocess.run(
        [TESTS, "--exact", "object::tests::it_keeps_the_contract"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    server.stop()
    assert "test result: ok. 1 passed" in done.stdout, done.stdout + done.stderr
