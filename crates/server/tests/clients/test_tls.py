"""TLS with a generated certificate and common clients. Needs the feature `tls`."""

import http.client
import socket
import ssl
import subprocess
import time

import conftest
import httpx
import pytest
from tls_support import FEATURES, Pair, needs_openssl, with_tls

pytestmark = needs_openssl


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return Pair(tmp_path_factory.mktemp("tls"), "one")


@pytest.fixture
def started(pair):
    server = conftest.start(*pair.options)
    yield server
    assert server.stop() == 0


def context(pair):
    return ssl.create_default_context(cafile=str(pair.cert))


def name_of(server):
    """Whom the server's certificate names."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as stream:
        unchecked = ssl.create_default_context()
        unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
        with unchecked.wrap_socket(stream) as wrapped:
            text = ssl.DER_cert_to_PEM_cert(wrapped.getpeercert(binary_form=True))
    shown = subprocess.run(
        ["openssl", "x509", "-noout", "-subject"], input=text, capture_output=True, text=True, check=True
    )
    return shown.stdout.strip().rsplit("=", 1)[1].strip()


@with_tls
def test_clients_that_check_the_certificate_are_served(pair, started):
    assert started.url.startswith("https://127.0.0.1:")
    with httpx.Client(verify=context(pair), headers=started.headers, timeout=60) as client:
        answer = client.post(f"{started.url}/v1/runs", json={"code": "print(1)"})
        assert answer.json()["stdout"] == "1\n"
        with client.stream("POST", f"{started.url}/v1/runs", json={"code": "print(2)"}, headers={"Accept": "text/event-stream"}) as lines:
            assert any("event: outcome" in line for line in lines.iter_lines())
    with pytest.raises(httpx.ConnectError, match="certificate"):
        httpx.get(f"{started.url}/healthz", timeout=60)


@with_tls
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_it_speaks_http_1_1_in_either_version(pair, started, version):
    chosen = context(pair)
    chosen.minimum_version = chosen.maximum_version = version
    chosen.set_alpn_protocols(["h2", "http/1.1"])
    client = http.client.HTTPSConnection("127.0.0.1", started.port, context=chosen, timeout=60)
    client.request("GET", "/healthz")
    assert client.getresponse().read() == b"ok\n"
    assert client.sock.selected_alpn_protocol() == "http/1.1"
    client.close()


@with_tls
def test_who_speaks_no_tls_or_an_old_one_is_sent_away(pair, started):
    with socket.create_connection(("127.0.0.1", started.port), timeout=60) as stream:
        stream.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        # At most an alert of TLS.
        assert b"HTTP" not in stream.recv(4096)
    only_h2 = context(pair)
    only_h2.set_alpn_protocols(["h2"])
    with socket.create_connection(("127.0.0.1", started.port), timeout=60) as stream, pytest.raises(ssl.SSLError):
        only_h2.wrap_socket(stream, server_hostname="localhost")
    # A silent connection blocks no other.
    with socket.create_connection(("127.0.0.1", started.port), timeout=60):
        assert httpx.get(f"{started.url}/healthz", verify=context(pair), timeout=60).text == "ok\n"


@with_tls
def test_a_new_certificate_is_taken_up_and_a_broken_one_is_not(tmp_path):
    pair = Pair(tmp_path, "old")
    server = conftest.start(*pair.options)
    before = httpx.Client(verify=context(pair), timeout=60)
    assert before.get(f"{server.url}/healthz").text == "ok\n"
    pair.make("new")
    deadline = time.monotonic() + 30
    while name_of(server) != "new":
        assert time.monotonic() < deadline
        time.sleep(0.2)
    # A connection goes on as it began.
    assert before.get(f"{server.url}/healthz").text == "ok\n"
    pair.key.write_text("nonsense")
    time.sleep(2.5)
    assert name_of(server) == "new"
    assert server.stop() == 0


@with_tls
@pytest.mark.parametrize("kind", [("rsa:2048",), ("ec", "-pkeyopt", "ec_paramgen_curve:secp384r1"), ("ed25519",)])
def test_keys_of_every_usual_kind_are_used(tmp_path, kind):
    pair = Pair(tmp_path, "one", kind)
    server = conftest.start(*pair.options)
    assert httpx.get(f"{server.url}/healthz", verify=context(pair), timeout=60).text == "ok\n"
    assert server.stop() == 0


def refused(*options):
    command = [conftest.COMMAND, "serve", "--listen", "127.0.0.1:0", *options]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2, ended
    return ended.stderr


@with_tls
def test_wrong_files_are_told_in_words(pair, tmp_path):
    other, empty, broken = Pair(tmp_path, "other"), tmp_path / "empty", tmp_path / "broken"
    empty.write_text("")
    broken.write_text("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n")

    def said(cert, key):
        return " ".join(refused("--tls-cert", str(cert), "--tls-key", str(key)).split())

    assert f"cannot read the certificate in {tmp_path}/none" in said(tmp_path / "none", pair.key)
    assert f"cannot read the key in {tmp_path}/none" in said(pair.cert, tmp_path / "none")
    assert f"{empty} has no certificate in PEM" in said(empty, pair.key)
    assert f"{pair.cert} has no key in PEM" in said(pair.cert, pair.cert)
    assert f"{broken} is not PEM" in said(broken, pair.key)
    assert f"the key in {other.key} does not match the certificate in {pair.cert}" in said(pair.cert, other.key)


@pytest.mark.skipif("tls" in FEATURES, reason="this command has TLS")
def test_a_command_without_tls_says_so(pair):
    assert "built without TLS" in refused(*pair.options)
