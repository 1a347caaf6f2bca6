"""Integration with a service manager: socket activation and `sd_notify`."""

import os
import signal
import socket
import subprocess
import urllib.error
import urllib.request

import pytest
from conftest import COMMAND

TIME = 60


def get(url, **headers):
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIME) as answer:
        return answer.read().decode()


def start(*arguments, fds=(), **environment):
    """Starts a server that has these descriptors as its numbers 3 and up."""

    def place():
        # First out of the way of one another.
        moved = [os.dup(fd) for fd in fds]
        high = [fd + 100 for fd in range(len(moved))]
        for fd, to in zip(moved, high, strict=True):
            os.dup2(fd, to)
        for number, fd in enumerate(high):
            os.dup2(fd, 3 + number)

    if fds:
        environment["LISTEN_FDS"] = str(len(fds))
    # The number of the process is known in the process alone.
    command = ["sh", "-c", 'LISTEN_PID=$$ exec "$0" "$@"', COMMAND, "serve", "--json", *arguments]
    return subprocess.Popen(
        command,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=place if fds else None,
        pass_fds=range(3, 3 + len(fds)),
    )


def end(process):
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=TIME)
    return process.returncode


def test_it_serves_the_socket_that_was_bound_for_it():
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]
        # Connections that came before it was there wait for it.
        early = socket.create_connection(("127.0.0.1", port), timeout=TIME)
        early.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        process = start("--no-auth", fds=[bound.fileno()])
        assert f'"url":"http://127.0.0.1:{port}"' in process.stdout.readline()
        assert early.recv(4096).endswith(b"ok\n")
        early.close()
        assert get(f"http://127.0.0.1:{port}/readyz").startswith("ready\n")
        assert end(process) == 0
        # It is not the server's, and outlives it: the next one goes on with it.
        process = start("--no-auth", fds=[bound.fileno()])
        process.stdout.readline()
        assert get(f"http://127.0.0.1:{port}/healthz") == "ok\n"
        assert end(process) == 0


def test_it_serves_a_unix_socket_that_was_bound_for_it(tmp_path):
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))
        bound.listen()
        process = start("--no-auth", fds=[bound.fileno()])
        assert f'"url":"unix:{path}"' in process.stdout.readline()
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(TIME)
            client.connect(str(path))
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert client.recv(4096).endswith(b"ok\n")
        assert end(process) == 0
    assert path.exists(), "the socket is the service manager's to remove"


def test_sockets_meant_for_another_process_are_left_alone():
    with socket.create_server(("127.0.0.1", 0)) as bound:
        command = [COMMAND, "serve", "--json", "--no-auth", "--listen", "127.0.0.1:0"]
        environment = {**os.environ, "LISTEN_FDS": "1", "LISTEN_PID": "1"}
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        assert f":{bound.getsockname()[1]}" not in process.stdout.readline()
        assert end(process) == 0


def test_what_cannot_be_served_is_said_in_words(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        process = start("--no-auth", fds=[one.fileno(), two.fileno()])
        _, errors = process.communicate(timeout=TIME)
        assert "2 sockets were passed, but only one is supported" in errors
        assert process.returncode == 3
    with socket.create_server(("0.0.0.0", 0)) as public:
        process = start("--no-auth", fds=[public.fileno()])
        _, errors = process.communicate(timeout=TIME)
        assert "without a key" in errors
        assert process.returncode == 3


def test_a_socket_that_lets_in_others_than_were_meant_is_refused(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as bound:
        process = start("--unix", str(tmp_path / "asked"), fds=[bound.fileno()])
        _, errors = process.communicate(timeout=TIME)
        assert "a Unix socket was requested, but 127.0.0.1" in errors
        assert process.returncode == 3
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))
        path.chmod(0o666)
        bound.listen()
        process = start("--unix", str(path), fds=[bound.fileno()])
        _, errors = process.communicate(timeout=TIME)
        assert "of mode 666 without a key" in errors
        assert process.returncode == 3


@pytest.mark.parametrize("is_hidden", [False, True])
def test_the_service_manager_hears_when_it_is_ready_and_when_it_stops(tmp_path, is_hidden):
    name = f"\0belljar-{os.getpid()}" if is_hidden else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(name)
        manager.settimeout(TIME)
        process = start("--no-auth", "--listen", "127.0.0.1:0", NOTIFY_SOCKET=name.replace("\0", "@"))
        url = process.stdout.readline().split('"')[3]
        assert manager.recv(4096) == b"READY=1"
        assert get(f"{url}/healthz") == "ok\n"
        process.send_signal(signal.SIGTERM)
        assert manager.recv(4096) == b"STOPPING=1"
        process.communicate(timeout=TIME)
        assert process.returncode == 0


def test_a_service_manager_that_is_gone_is_no_matter(tmp_path):
    process = start("--no-auth", "--listen", "127.0.0.1:0", NOTIFY_SOCKET=str(tmp_path / "nobody"))
    url = process.stdout.readline().split('"')[3]
    assert get(f"{url}/healthz") == "ok\n"
    assert end(process) == 0
