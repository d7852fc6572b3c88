"""The real program, whose result folder is removed while its second test is measured."""

import shutil
import sys
from collections.abc import Callable
from math import inf
from typing import Any

from planting import RANK, replaced

from hpcai import recorder
from hpcai.main import main
from hpcai.report import files


def plant() -> None:
    def make(genuine: Callable[..., None]) -> Any:
        def write(folder: Any, result: Any, known: Any = None) -> None:
            if RANK == 0 and len(result.tests) == 2 and folder.parent.name == "results":
                shutil.rmtree(folder, ignore_errors=True)
            genuine(folder, result, known)

        return write

    replaced(files, "write", make).__enter__()
    replaced(recorder, "WRITING_SHARE", lambda share: inf).__enter__()  # files are written after every test


if __name__ == "__main__":
    plant()
    sys.exit(main(sys.argv[1:]))
