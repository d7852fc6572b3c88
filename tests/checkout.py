"""Copies of this checkout for tests that write into one."""

import shutil
from pathlib import Path

from launch import ROOT

MADE_AGAIN = (".git", ".venv", "results", "build", "dist", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis")


def copy_checkout(target: Path) -> Path:
    """The sources alone, with their times; returns `target`."""
    shutil.copytree(ROOT, target, symlinks=True, ignore=shutil.ignore_patterns(*MADE_AGAIN))
    return target


def copy_kernels(target: Path) -> Path:
    """The folder kernels/ and what makes it importable as hpcai.kernels; returns `target`."""
    shutil.copytree(ROOT / "kernels", target / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
    (target / "hpcai").mkdir()
    for name in ("__init__.py", "kernels"):
        shutil.copy(ROOT / "hpcai" / name, target / "hpcai", follow_symlinks=False)
    return target
