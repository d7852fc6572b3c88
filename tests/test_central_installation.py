"""An installation that belongs to root, used by another user from a folder of his own (docs/INSTALL.md)."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from checkout import copy_checkout
from launch import mpirun
from machine_requirements import missing

USER = 65534  # nobody
AS_USER = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
COMPILED = ["--set", "KERNELS=custom", "GROUPS=2", "DEGREE=1", "EPOCHS=1"]


@pytest.fixture
def places() -> Iterator[tuple[Path, Path]]:
    """The installation, and the user's folder; outside of pytest's folders, which only their owner may enter."""
    if os.geteuid() or shutil.which("setpriv") is None:
        missing("NO OTHER USER: that needs root, and setpriv")
    if subprocess.run([*AS_USER, sys.executable, "-c", "import torch"], cwd="/", check=False).returncode:
        pytest.skip("NO OTHER USER: this Python is in a folder that only its owner may enter")
    top = Path(tempfile.mkdtemp(prefix="hpcai-central-"))
    top.chmod(0o755)
    own = top / "user"
    own.mkdir(mode=0o700)
    os.chown(own, USER, USER)
    yield copy_checkout(top / "central"), own
    shutil.rmtree(top)


def contents(folder: Path) -> dict[Path, int]:
    return {path: path.lstat().st_mtime_ns for path in folder.rglob("*")}


@pytest.mark.slow
def test_another_user_runs_it_from_his_own_folder(places: tuple[Path, Path]) -> None:
    central, own = places
    before = contents(central)

    def run(*words: object) -> subprocess.CompletedProcess[str]:
        command = [*AS_USER, *map(str, words)]
        home = {"HOME": str(own), "PATH": "/usr/bin:/bin", "TMPDIR": str(own), "CUDA_VISIBLE_DEVICES": ""}
        return subprocess.run(command, cwd=own, env=home, capture_output=True, text=True, timeout=300, check=False)

    job = [mpirun(), "-np", "2", sys.executable, central / "bench.py", central / "inputs/smoke.dat"]
    done = run(*job, *COMPILED)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "End of Tests." in done.stdout and "Traceback" not in done.stderr
    (folder,) = (own / "results").iterdir()
    assert folder.stat().st_uid == USER
    assert run(sys.executable, central / "bench.py", "--verify", folder).returncode == 0
    assert contents(central) == before
