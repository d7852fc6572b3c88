"""Copies of this checkout for tests that write into one."""

import shutil
from pathlib import Path

from launch import ROOT

MADE_AGAIN = (".git", ".venv", "results", "build", "dist", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis")


def copy_checkout(target: Path) -> Path:
    """The sources alone, with their times; returns `target`."""
    shutil.copytree(ROOT, target, ignore=shutil.ignore_patterns(*MADE_AGAIN))
    return target
