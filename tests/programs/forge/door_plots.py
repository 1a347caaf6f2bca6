"""Names figures that are none, and figures that are elsewhere."""

import os

import _host

os.symlink("real.png", "link.png")
with open("real.png", "wb") as file:
    file.write(b"\x89PNG\r\n\x1a\n")
for path in (
    "../secret.txt",
    "/etc/passwd",
    "missing.png",
    "link.png",
    "./real.png/../real.png",
    "a\x00b",
    "",
    ".",
    "x" * 100_000,
):
    try:
        import json

        _host.call(b"p" + json.dumps({"path": path, "shown": True}).encode())
    except Exception:
        continue

# expect plots within: ["link.png", "real.png"]
