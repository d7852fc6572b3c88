"""The real program on a disk that is full from the second test on: files of rank 0 cannot grow any more."""

import resource
import sys
from collections.abc import Callable
from math import inf
from typing import Any

from planting import RANK, replaced

from hpcai import recorder
from hpcai.main import main
from hpcai.report import files

LIMIT = 2000  # bytes; a report is longer


def plant() -> None:
    def make(genuine: Callable[..., None]) -> Any:
        def write(folder: Any, result: Any, known: Any = None) -> None:
            if RANK == 0 and len(result.tests) == 2:
                resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))
            genuine(folder, result, known)

        return write

    replaced(files, "write", make).__enter__()
    replaced(recorder, "WRITING_SHARE", lambda share: inf).__enter__()  # files are written after every test


if __name__ == "__main__":
    plant()
    sys.exit(main(sys.argv[1:]))
