"""Many connections for ten minutes, while the server's memory, descriptors and files are measured.

    python soak.py [MINUTES] [CONNECTIONS]

It starts a server as the tests do, in temporary directories. Each connection sends a mix: runs,
runs that write files, event streams, whole sessions, and early disconnects. It fails if anything
grows between the second and the last quarter of the time; in the first quarter, caches fill.
"""

import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import conftest

# How much more than in the second quarter there may be: as a share, and beside it as a number.
ALLOWED = {"private KiB": (0.05, 4096), "descriptors": (0.0, 8), "threads": (0.0, 4), "files": (0.0, 64)}
EVERY = 5
# A machine that has other work besides is given time.
TIME = {"timeout": 100}
LAST_WORD = 120


class Connection:
    """Requests one after the other, each on the same connection, as long as it lasts."""

    def __init__(self, server):
        self.server = server
        self.streams = None

    async def ask(self, method, path, body=None, accept="application/json"):
        """The status and the body of an answer."""
        await self.send(method, path, body, accept)
        return await self.answer()

    async def send(self, method, path, body, accept):
        if self.streams is None:
            self.streams = await asyncio.open_connection("127.0.0.1", self.server.port)
        content = b"" if body is None else json.dumps(body).encode()
        head = [
            f"{method} {path} HTTP/1.1",
            "Host: localhost",
            f"Authorization: Bearer {self.server.key}",
            f"Accept: {accept}",
            "Content-Type: application/json",
            f"Content-Length: {len(content)}",
        ]
        self.streams[1].write("\r\n".join([*head, "", ""]).encode() + content)
        await self.streams[1].drain()

    async def answer(self):
        reader, _ = self.streams
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        status = int(lines[0].split()[1])
        headers = dict(line.split(": ", 1) for line in lines[1:] if line)
        if headers.get("transfer-encoding") == "chunked":
            return status, await self.chunks()
        return status, await reader.readexactly(int(headers.get("content-length", 0)))

    async def chunks(self):
        reader, _ = self.streams
        parts = []
        while size := int((await reader.readline()).strip(), 16):
            parts.append(await reader.readexactly(size))
            await reader.readline()
        await reader.readline()
        return b"".join(parts)

    async def leave(self):
        if self.streams is not None:
            self.streams[1].close()
            self.streams = None


async def plain(connection, count):
    status, body = await connection.ask("POST", "/v1/runs", {"code": f"print({count})", **TIME})
    assert (status, json.loads(body)["stdout"]) == (200, f"{count}\n"), body


async def fails(connection, _):
    status, body = await connection.ask("POST", "/v1/runs", {"code": "x = [0] * 100_000\n1 / 0", **TIME})
    assert status == 200 and not json.loads(body)["success"], body


async def leaves_files(connection, _):
    code = "open('a.bin', 'wb').write(bytes(100_000))"
    status, body = await connection.ask("POST", "/v1/runs", {"code": code, **TIME})
    run = json.loads(body)["run"]
    status, body = await connection.ask("GET", f"/v1/runs/{run}/files/a.bin")
    # With many clients, a thousand newer ones may have come since.
    assert status == 404 or len(body) == 100_000, status


async def streams(connection, _):
    code = "for i in range(20): print(i)"
    status, body = await connection.ask("POST", "/v1/runs", {"code": code, **TIME}, "text/event-stream")
    assert status == 200 and b"event: outcome" in body, body


async def session(connection, count):
    status, body = await connection.ask("POST", "/v1/sessions", {"image": "core", "code": f"x = {count}", **TIME})
    assert status == 201, body
    path = f"/v1/sessions/{json.loads(body)['id']}"
    status, body = await connection.ask("POST", f"{path}/runs", {"code": "print(x)", **TIME})
    assert (status, json.loads(body)["stdout"]) == (200, f"{count}\n"), body
    status, body = await connection.ask("DELETE", path)
    assert status == 204, body


async def leaves(connection, _):
    code = "while True: print(1)"
    await connection.send("POST", "/v1/runs", {"code": code, **TIME}, "text/event-stream")
    await connection.streams[0].readuntil(b"event: stdout")
    await connection.leave()


# How often each is asked for.
MIX = [*[plain] * 12, *[fails] * 2, *[leaves_files] * 2, *[streams] * 2, session, leaves]


async def client(server, end, done, number):
    connection = Connection(server)
    count = number
    while time.monotonic() < end:
        count += 1
        await asyncio.wait_for(MIX[count % len(MIX)](connection, count), LAST_WORD)
        done[0] += 1
    await connection.leave()


def look(pid, folders):
    """What the process has."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    private = sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Private_Dirty"))
    return {
        "private KiB": private,
        "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
        "threads": len(os.listdir(f"/proc/{pid}/task")),
        "files": sum(len(files) + len(names) for folder in folders for _, names, files in os.walk(folder)),
    }


async def watch(pid, folders, end, done):
    seen = []
    while time.monotonic() < end:
        await asyncio.sleep(EVERY)
        seen.append(look(pid, folders))
        if len(seen) % 6 == 0:
            print(f"{len(seen) * EVERY:>5} s, {done[0]:>8} done: {seen[-1]}", flush=True)
    return seen


async def soak(server, folders, minutes, connections):
    started = time.monotonic()
    end = started + minutes * 60
    done = [0]
    clients = [client(server, end, done, number) for number in range(connections)]
    seen, *_ = await asyncio.gather(watch(server.process.pid, folders, end, done), *clients)
    print(f"{done[0]} requests of {connections} clients, {done[0] / (time.monotonic() - started):.0f} a second")
    return seen


def verdict(seen):
    """Whether nothing grew."""
    quarter = len(seen) // 4
    kept = True
    for name, (share, number) in ALLOWED.items():
        early = statistics.median(one[name] for one in seen[quarter : 2 * quarter])
        late = statistics.median(one[name] for one in seen[-quarter:])
        grew = late > early * (1 + share) + number
        kept &= not grew
        print(f"{name}: {early:.0f} in the second quarter, {late:.0f} in the last: {'GREW' if grew else 'kept'}")
    return kept


def main():
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 10
    connections = int(sys.argv[2]) if len(sys.argv) > 2 else 64
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.environ["TMPDIR"] = folder
        server = conftest.start("--max-waiting", "4096")
        try:
            seen = asyncio.run(soak(server, [folder], minutes, connections))
            time.sleep(2)
            print(f"without clients: {look(server.process.pid, [folder])}")
        finally:
            status = server.stop()
        left = sum(len(files) for _, _, files in os.walk(folder))
        print(f"ended with status {status}, {left} files left")
        kept = verdict(seen)
    sys.exit(0 if kept and status == 0 and left == 0 else 1)


if __name__ == "__main__":
    main()
