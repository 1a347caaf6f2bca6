"""Watches from outside: connections to listeners, and resources of a process tree."""

import os
import selectors
import socket
import stat
import threading
import time
from dataclasses import dataclass, field

PAGE = os.sysconf("SC_PAGE_SIZE")


class Listener:
    """Listens on loopback by TCP and UDP on one port, and on Unix sockets; counts connections."""

    def __init__(self, port=0):
        self.contacts = 0
        self._selector = selectors.DefaultSelector()
        self._sockets = []
        for _ in range(20):
            tcp, udp = socket.socket(), socket.socket(type=socket.SOCK_DGRAM)
            tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tcp.bind(("127.0.0.1", port))
            try:
                udp.bind(tcp.getsockname())
            except OSError:
                tcp.close()
                udp.close()
                continue
            break
        self.port = tcp.getsockname()[1]
        self._add(tcp)
        self._add(udp)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._is_over = False
        self._thread.start()

    def also(self, path):
        """Listens on a Unix socket at `path`, and on the abstract one of that name."""
        for name in (str(path), "\0" + str(path)):
            unix = socket.socket(socket.AF_UNIX)
            unix.bind(name)
            self._add(unix)
        os.chmod(path, 0o777)

    def close(self):
        self._is_over = True
        self._thread.join()
        for one in self._sockets:
            one.close()
        self._sockets = []
        self._selector.close()

    def _add(self, one):
        if one.type == socket.SOCK_STREAM:
            one.listen(64)
        one.setblocking(False)
        self._sockets.append(one)
        self._selector.register(one, selectors.EVENT_READ)

    def _serve(self):
        while not self._is_over:
            for key, _ in self._selector.select(0.2):
                self.contacts += 1
                try:
                    if key.fileobj.type == socket.SOCK_STREAM:
                        key.fileobj.accept()[0].close()
                    else:
                        key.fileobj.recvfrom(1 << 16)
                except OSError:
                    continue


@dataclass
class Held:
    """The maximum resources of a process tree."""

    memory: int = 0
    descriptors: int = 0
    processes: int = 0
    disk: int = 0

    def above(self, other):
        names = ("memory", "descriptors", "processes", "disk")
        return Held(*(max(0, getattr(self, n) - getattr(other, n)) for n in names))


@dataclass
class Watch:
    """Samples a process and its descendants until the end of the block."""

    process: int
    place: object = None
    peak: Held = field(default_factory=Held)
    first: Held = field(default_factory=Held)

    def __enter__(self):
        self._stop = threading.Event()
        self.first = self._look(True)
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def growth(self):
        return self.peak.above(self.first)

    def _watch(self):
        looked = 0
        while not self._stop.wait(0.02):
            looked += 1
            self._look(looked % 10 == 0)

    def _look(self, at_disk):
        now = Held()
        for process in tree(self.process):
            try:
                with open(f"/proc/{process}/statm") as file:
                    now.memory += int(file.read().split()[1]) * PAGE
                now.processes += len(os.listdir(f"/proc/{process}/task"))
                names = os.listdir(f"/proc/{process}/fd")
            except (OSError, IndexError):
                continue
            now.descriptors += len(names)
            if at_disk:
                now.disk += _nameless(process, names)
        if at_disk and self.place:
            now.disk += self.place.disk()
        for name in ("memory", "descriptors", "processes", "disk"):
            setattr(self.peak, name, max(getattr(self.peak, name), getattr(now, name)))
        return now


def tree(root):
    """A process and its descendants."""
    children = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", "rb") as file:
                    parent = int(file.read().rpartition(b")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(entry))
    found, waiting = [], [root]
    while waiting:
        process = waiting.pop()
        found.append(process)
        waiting.extend(children.get(process, ()))
    return found


def _nameless(process, names):
    """Disk space of open and deleted files, which no listing shows."""
    total, seen = 0, set()
    for name in names:
        try:
            status = os.stat(f"/proc/{process}/fd/{name}")
            if os.readlink(f"/proc/{process}/fd/{name}").startswith("/memfd:"):
                continue  # Memory, whatever it is called.
        except OSError:
            continue
        key = (status.st_dev, status.st_ino)
        if stat.S_ISREG(status.st_mode) and status.st_nlink == 0 and key not in seen:
            seen.add(key)
            total += status.st_blocks * 512
    return total


def wait_until(moment):
    time.sleep(max(0, moment - time.monotonic()))
