"""A build backend that only copies the metadata of a source distribution.

`pip download` asks the package's own backend for its metadata, which would install and run the
whole build. Every source distribution has that metadata in PKG-INFO already.
"""

import shutil
from pathlib import Path


def get_requires_for_build_wheel(config_settings=None):
    return []


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    folder = Path(metadata_directory, "source.dist-info")
    folder.mkdir()
    shutil.copyfile("PKG-INFO", folder / "METADATA")
    return folder.name
