"""The real program whose files fail from the second test on: `full`, the disk is full, or `removed`, the folder is."""

import resource
import shutil
import sys
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Any

from planting import RANK, replaced

from hpcai import recorder
from hpcai.main import main
from hpcai.report import files

LIMIT = 2000  # bytes; a report is longer


def full(folder: Path) -> None:
    """Files of this process cannot grow any more."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))


def removed(folder: Path) -> None:
    """The folder of the result is gone, but not that below TMPDIR."""
    if folder.parent.name == "results":
        shutil.rmtree(folder, ignore_errors=True)


def plant(fault: Callable[[Path], None]) -> None:
    def make(genuine: Callable[..., None]) -> Any:
        def write(folder: Path, result: Any, known: Any = None) -> None:
            if RANK == 0 and len(result.tests) == 2:
                fault(folder)
            genuine(folder, result, known)

        return write

    replaced(files, "write", make).__enter__()
    replaced(recorder, "WRITING_SHARE", lambda share: inf).__enter__()  # files are written after every test


if __name__ == "__main__":
    plant({"full": full, "removed": removed}[sys.argv[1]])
    sys.exit(main(sys.argv[2:]))
