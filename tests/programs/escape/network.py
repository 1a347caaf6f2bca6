"""Talks to a server on this host. argv: its TCP port, and its UDP port."""

import asyncio
import http.client
import socket
import sys
import urllib.request

from attempts import attempt

TCP, UDP = int(sys.argv[1]), int(sys.argv[2])
HOST = "127.0.0.1"


def connect():
    with socket.create_connection((HOST, TCP), timeout=5) as connection:
        connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
        return connection.recv(100)


def datagram():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        return sender.sendto(b"hello", (HOST, UDP))


def serve():
    with socket.create_server((HOST, 0)) as server:
        return server.getsockname()


def pair():
    left, right = socket.socketpair()
    left.sendall(b"x")
    return right.recv(1)


def unix():
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind("socket")
        return True


def request():
    connection = http.client.HTTPConnection(HOST, TCP, timeout=5)
    connection.request("GET", "/")
    return connection.getresponse().status


async def streams():
    _, writer = await asyncio.open_connection(HOST, TCP)
    writer.write(b"GET / HTTP/1.0\r\n\r\n")
    await writer.drain()
    writer.close()
    return True


attempt("connection", connect)
attempt("datagram", datagram)
attempt("server", serve)
attempt("unix server", unix)
attempt("pair", pair)
attempt("http.client", request)
attempt("urllib", lambda: urllib.request.urlopen(f"http://{HOST}:{TCP}/", timeout=5).status)
attempt("asyncio", lambda: asyncio.run(streams()))
attempt("name", lambda: socket.gethostbyname("localhost"))
