"""What the tests of TLS share: certificates that are made here."""

import os
import shutil
import subprocess

import pytest

FEATURES = os.environ.get("BELLJAR_FEATURES", "").split(",")

needs_openssl = pytest.mark.skipif(
    not shutil.which("openssl"), reason="openssl makes the certificates"
)
with_tls = pytest.mark.skipif("tls" not in FEATURES, reason="BELLJAR_FEATURES names no tls")


class Pair:
    """A certificate and its key."""

    def __init__(self, folder, name, kind=("ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")):
        self.cert, self.key = folder / f"{name}.pem", folder / f"{name}.key"
        self.make(name, kind)

    def make(self, name, kind=("ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")):
        command = ["openssl", "req", "-x509", "-nodes", "-days", "2", "-newkey", *kind]
        names = ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
        names += ["-addext", "basicConstraints=critical,CA:FALSE"]
        files = ["-out", str(self.cert), "-keyout", str(self.key)]
        subprocess.run([*command, *names, *files], check=True, capture_output=True)

    @property
    def options(self):
        return ["--tls-cert", str(self.cert), "--tls-key", str(self.key)]
