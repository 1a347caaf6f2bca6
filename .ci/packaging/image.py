"""Writes a container image without a daemon: an OCI layout in one tar file.

python image.py OUTPUT.tar --version 0.1.0 --command FILE --bundle DIR --licenses FILE ...

The image has one static command with the licenses, a bundle and an empty /tmp, each in a layer of
its own, so that a new command does not transfer the bundle again.
"""

import argparse
import hashlib
import json
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from archives import EPOCH, compressed, tar_bytes

MEDIA = "application/vnd.oci.image."


class Layout:
    """An OCI layout that is being written."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.blobs = root / "blobs" / "sha256"
        self.blobs.mkdir(parents=True)
        (root / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')

    def add(self, data: bytes, kind: str) -> dict:
        """Stores a blob, and returns its descriptor."""
        digest = hashlib.sha256(data).hexdigest()
        (self.blobs / digest).write_bytes(data)
        return {"mediaType": MEDIA + kind, "digest": f"sha256:{digest}", "size": len(data)}

    def add_json(self, value: dict, kind: str) -> dict:
        return self.add(json.dumps(value, separators=(",", ":")).encode(), kind)


def write(
    output: Path,
    version: str,
    command: Path,
    bundle: Path,
    licenses: list[Path],
    architecture: str = "amd64",
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder, "empty")
        empty.mkdir()
        layout = Layout(Path(folder, "layout"))
        tars = [
            tar_bytes([("bundle", bundle)]),
            tar_bytes([("tmp", empty)], {"tmp": 0o1777}),
            tar_bytes(
                [("belljar", command), *((file.name, file) for file in licenses)],
                {"belljar": 0o755},
            ),
        ]
        layers = [layout.add(compressed(data), "layer.v1.tar+gzip") for data in tars]
        created = datetime.fromtimestamp(EPOCH, UTC).isoformat().replace("+00:00", "Z")
        config = {
            "architecture": architecture,
            "os": "linux",
            "created": created,
            "config": {
                "User": "65534",
                "Env": ["BELLJAR_BUNDLE=/bundle"],
                "Entrypoint": ["/belljar"],
                "Labels": {
                    "org.opencontainers.image.title": "belljar",
                    "org.opencontainers.image.version": version,
                    "org.opencontainers.image.licenses": "Apache-2.0",
                },
            },
            "rootfs": {
                "type": "layers",
                "diff_ids": [f"sha256:{hashlib.sha256(data).hexdigest()}" for data in tars],
            },
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": MEDIA + "manifest.v1+json",
            "config": layout.add_json(config, "config.v1+json"),
            "layers": layers,
        }
        described = layout.add_json(manifest, "manifest.v1+json")
        described["annotations"] = {"org.opencontainers.image.ref.name": version}
        described["platform"] = {"architecture": architecture, "os": "linux"}
        index = {"schemaVersion": 2, "manifests": [described]}
        (layout.root / "index.json").write_text(json.dumps(index))
        output.write_bytes(tar_bytes((path.name, path) for path in layout.root.iterdir()))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("output", type=Path)
    parser.add_argument("--version", required=True)
    parser.add_argument("--command", type=Path, required=True)
    parser.add_argument("--bundle", type=Path, required=True)
    parser.add_argument("--licenses", type=Path, nargs="+", required=True)
    parser.add_argument("--architecture", default="amd64")
    write(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
