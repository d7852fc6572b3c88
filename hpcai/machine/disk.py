"""What has to be on the disk before a program goes on."""

import os
from pathlib import Path


def flush(path: Path) -> None:
    """Flush a file, or the renames in a folder, to the disk, so that it survives a failure of the node."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
