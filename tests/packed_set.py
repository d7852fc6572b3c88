"""A packed set of real images, made once by the packer for all tests that read one."""

import shutil
import tempfile
from functools import cache
from pathlib import Path

from image_tree import make_tree
from launch import run_job

SHARD = 5  # images
_folders = []  # temporary folders are removed with these objects, at the end of all tests


@cache
def packed_set(train: int = 6, validation: int = 2) -> Path:
    """A set of 4 classes with the given number of images each; not to be altered."""
    _folders.append(tempfile.TemporaryDirectory())
    folder = Path(_folders[-1].name)
    tree = make_tree(folder / "tree", train, validation)
    job = run_job(["-m", "hpcai.data.pack", tree, folder / "set", "--shard-bytes", str(SHARD * 256 * 256 * 3)], None)
    assert job.returncode == 0, job.stderr
    return folder / "set"


def copy_of_set(target: Path, train: int = 6, validation: int = 2) -> Path:
    """A copy that may be damaged."""
    return Path(shutil.copytree(packed_set(train, validation), target))
