"""Where the checkpoints of a run lie: a folder of each test, in a hidden folder of the result folder.

Hidden, so that SHA256SUMS does not list files that are replaced while the run goes on.
"""

import shutil
from collections.abc import Iterable
from pathlib import Path

FOLDER = ".checkpoints"


def folder_of(results: Path, test: int) -> Path:
    """The checkpoints of a test, by its number."""
    return results / FOLDER / f"test-{test}"


def remove(results: Path, tests: Iterable[int]) -> None:
    """Remove the checkpoints of tests that have ended, and the folder of all if it is empty."""
    for test in tests:
        shutil.rmtree(folder_of(results, test), ignore_errors=True)
    whole = results / FOLDER
    if whole.is_dir() and not any(whole.iterdir()):
        whole.rmdir()
