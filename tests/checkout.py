"""Copies of this checkout for tests that write into one."""

import shutil
from pathlib import Path

from launch import ROOT

MADE_AGAIN = (".git", ".venv", "build", "dist", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis")


def copy_checkout(target: Path) -> Path:
    """The sources alone, with their modification times; returns `target`."""
    shutil.copytree(ROOT, target, symlinks=True, ignore=_made_again)
    return target


def _made_again(folder: str, names: list[str]) -> set[str]:
    """Names in a folder that are not sources; results of runs are in the top folder only."""
    results = {"results"} if Path(folder) == ROOT else set()
    return results | shutil.ignore_patterns(*MADE_AGAIN)(folder, names)


def copy_kernels(target: Path) -> Path:
    """The folder kernels/ and the files that make it importable as hpcai.kernels; returns `target`."""
    shutil.copytree(ROOT / "kernels", target / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
    (target / "hpcai").mkdir()
    for name in ("__init__.py", "kernels"):
        shutil.copy(ROOT / "hpcai" / name, target / "hpcai", follow_symlinks=False)
    return target
