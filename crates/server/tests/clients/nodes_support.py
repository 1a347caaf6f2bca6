"""Servers over one store, for tests with the clients that people use."""

import itertools
import os
import subprocess

import httpx
import pytest
from conftest import COMMAND, object_store, start

FEATURES = os.environ.get("BELLJAR_FEATURES", "").split(",")
LEASE = 1.5


class Nodes:
    """Some servers over one store, with the same keys."""

    def __init__(self, store, keys, key, environment):
        self.store, self.keys, self.key, self.environment = store, keys, key, environment
        self.headers = {"Authorization": f"Bearer {key}"}
        self.numbers = itertools.count()
        self.servers = []
        self.client = httpx.Client(headers=self.headers, timeout=60)

    def start(self):
        server = start(
            *("--keys", self.keys, "--store", self.store, "--lease", str(LEASE)),
            *("--node", f"n{next(self.numbers)}", "--grace", "5"),
            env=os.environ | self.environment,
        )
        self.servers.append(server)
        return server

    def ask(self, at, method, path, **how):
        return self.client.request(method, self.servers[at].url + path, **how)

    def run(self, at, session, code, **more):
        answer = self.ask(at, "POST", f"/v1/sessions/{session}/runs", json={"code": code, **more})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def stop(self):
        self.client.close()
        for server in self.servers:
            if server.process.poll() is None:
                assert server.stop() == 0


@pytest.fixture(scope="module", params=["directory", "s3", "azure"])
def store(request, tmp_path_factory):
    if request.param == "directory":
        yield f"file://{tmp_path_factory.mktemp('store')}", {}
        return
    if "stores" not in FEATURES:
        pytest.skip("a command with the feature stores is needed")
    server = object_store(request.param)
    yield server.url, server.environment
    server.stop()


@pytest.fixture
def nodes(store, tmp_path):
    keys = str(tmp_path / "keys.toml")
    made = subprocess.run(
        [COMMAND, "key", "alice", "--keys", keys], capture_output=True, text=True, check=True
    )
    all_of_them = Nodes(store[0], keys, made.stdout.strip(), store[1])
    for _ in range(3):
        all_of_them.start()
    yield all_of_them
    all_of_them.stop()
