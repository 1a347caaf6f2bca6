"""Azurite, Azure's blobs on this machine, on a free port: from the packages in js/azurite."""

import re
import shutil
import subprocess
from pathlib import Path

FOLDER = Path(__file__).parent / "js" / "azurite"
COMMAND = FOLDER / "node_modules" / ".bin" / "azurite-blob"
IS_THERE = shutil.which("node") is not None and COMMAND.exists()
READY = re.compile(r"successfully listens on (http://127\.0\.0\.1:\d+)")
# Its documented account, which is everybody's.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


class Azure:
    """A started server with one container; `environment` is what a client of it needs."""

    def __init__(self, container="sessions"):
        # Its client may be newer than it is.
        options = ["--inMemoryPersistence", "--skipApiVersionCheck", "--silent", "--disableTelemetry"]
        self._process = subprocess.Popen(
            [COMMAND, "--blobPort", "0", *options], stdout=subprocess.PIPE, text=True
        )
        try:
            self.endpoint = self._listens()
            self._make(container)
        except BaseException:
            self.stop()
            raise
        self.environment = {
            "AZURE_STORAGE_USE_EMULATOR": "true",
            "AZURITE_BLOB_STORAGE_URL": self.endpoint,
        }
        self.url = f"az://{container}/belljar"

    def _make(self, container):
        from azure.storage.blob import BlobServiceClient

        with BlobServiceClient(f"{self.endpoint}/{ACCOUNT}", credential=KEY) as client:
            client.create_container(container)

    def _listens(self):
        said = []
        for line in self._process.stdout:
            said.append(line)
            if ready := READY.search(line):
                return ready[1]
        raise RuntimeError(f"Azurite ended: {said}")

    def stop(self):
        self._process.terminate()
        self._process.wait(timeout=30)
