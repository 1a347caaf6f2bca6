"""Hostile clients of Jupyter's WebSocket: wrong lengths, early disconnects, unread sockets."""

import base64
import os
import random
import socket
import struct
import time

import pytest

from test_jupyter import channels, execute, http, kernel, text_of  # noqa: F401


def opened(server, kernel):
    """A WebSocket, opened by hand."""
    stream = socket.create_connection(("127.0.0.1", server.port), timeout=20)
    key = base64.b64encode(os.urandom(16)).decode()
    lines = [
        f"GET /api/kernels/{kernel}/channels?token={server.key} HTTP/1.1",
        "Host: localhost",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {key}",
    ]
    stream.sendall("\r\n".join([*lines, "", ""]).encode())
    said = b""
    while b"\r\n\r\n" not in said:
        said += stream.recv(1)
    assert said.startswith(b"HTTP/1.1 101"), said
    return stream


def frame(payload, opcode=1, *, last=True, length=None, masked=True):
    """A frame as a client sends it, of a length that need not be the payload's."""
    length = len(payload) if length is None else length
    head = bytes([(0x80 if last else 0) | opcode, (0x80 if masked else 0) | 127])
    head += struct.pack(">Q", length)
    return head + (b"\0\0\0\0" if masked else b"") + payload


MESSAGE = b'{"header": {"msg_id": "1", "msg_type": "kernel_info_request"}, "content": {}}'


@pytest.mark.parametrize(
    "data",
    [
        frame(MESSAGE, masked=False),
        frame(b"x", length=2**62),
        frame(b"x", length=2**64 - 1),
        frame(b"x" * 100, opcode=3),
        frame(b"x" * 200, opcode=9),
        frame(b"x", opcode=0),
        frame(b"\xff\xfe"),
        frame(b"x", last=False) + frame(b"y", last=False),
        frame(b"\x00\x01", opcode=8),
        b"\xff" * 1000,
        frame(MESSAGE)[:20],
        frame(b"[" * 200_000),
        frame(b"\0" * 8 + b"\xff" * 100, opcode=2),
        frame(struct.pack("<QQ", 2**63, 16), opcode=2),
    ],
    ids=range(14),
)
def test_frames_that_lie_cost_their_own_connection(server, kernel, data):  # noqa: F811
    with opened(server, kernel) as stream:
        stream.sendall(data)
        time.sleep(0.05)
    with channels(server, kernel) as ws:
        assert text_of(execute(ws, "print(1)")) == "1\n"


def test_a_message_that_never_ends_is_cut_off(server, kernel):  # noqa: F811
    piece = b"x" * (1 << 20)
    with opened(server, kernel) as stream:
        stream.settimeout(30)
        with pytest.raises(OSError):  # noqa: PT011
            for number in range(400):
                stream.sendall(frame(piece, opcode=1 if number == 0 else 0, last=False))
    with channels(server, kernel) as ws:
        assert text_of(execute(ws, "print(1)")) == "1\n"


def test_connections_that_end_in_the_middle(server, kernel):  # noqa: F811
    whole = frame(MESSAGE)
    chance = random.Random(4)
    for end in [0, 1, len(whole) - 1, len(whole)] + [
        chance.randrange(len(whole)) for _ in range(20)
    ]:
        with opened(server, kernel) as stream:
            stream.sendall(whole[:end])
    with channels(server, kernel) as ws:
        assert text_of(execute(ws, "print(1)")) == "1\n"


def test_many_sockets_that_nobody_reads(server, kernel):  # noqa: F811
    streams = [opened(server, kernel) for _ in range(200)]
    try:
        with channels(server, kernel) as ws:
            said = text_of(execute(ws, "for n in range(200): print('x' * 10_000)"))
            assert len(said) == 200 * 10_001
    finally:
        for stream in streams:
            stream.close()
    with channels(server, kernel) as ws:
        assert text_of(execute(ws, "print(1)")) == "1\n"
