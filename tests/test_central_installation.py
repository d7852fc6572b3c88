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


def may_run(program: str) -> bool:
    """Whether the other user may run a program."""
    tried = subprocess.run([*AS_USER, "sh", "-c", '"$0" --version', program], cwd="/", capture_output=True, check=False)
    return tried.returncode == 0


def make_environment(folder: Path) -> Path:
    """The Python of an environment with the packages of this one, which all users may run."""
    candidates = [os.path.realpath(sys.executable), f"/usr/bin/python{sys.version_info[0]}.{sys.version_info[1]}"]
    python = next((name for name in candidates if may_run(name)), None)
    if python is None:
        pytest.skip("NO OTHER USER: this Python is in a folder that only its owner may enter")
    subprocess.run([python, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = (folder / "lib").glob("python*/site-packages")
    (packages / "others.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")))
    return folder / "bin/python"


@pytest.fixture
def places() -> Iterator[tuple[Path, Path, Path]]:
    """The installation, its Python, and the user's folder; pytest's folders are closed to other users."""
    if os.geteuid() or shutil.which("setpriv") is None:
        missing("NO OTHER USER: that needs root, and setpriv")
    top = Path(tempfile.mkdtemp(prefix="hpcai-central-"))
    top.chmod(0o755)
    try:
        own = top / "user"
        own.mkdir(mode=0o700)
        os.chown(own, USER, USER)
        yield copy_checkout(top / "central"), make_environment(top / "environment"), own
    finally:
        shutil.rmtree(top)


def contents(folder: Path) -> dict[Path, int]:
    return {path: path.lstat().st_mtime_ns for path in folder.rglob("*")}


@pytest.mark.exhaustive
def test_another_user_runs_it_from_his_own_folder(places: tuple[Path, Path, Path]) -> None:
    central, python, own = places
    of_wheel = next(Path(sys.prefix, "lib").glob("libmpi.so.[0-9]*"), None)
    before = contents(central)

    def run(*words: object) -> subprocess.CompletedProcess[str]:
        command = [*AS_USER, *map(str, words)]
        home = {"HOME": str(own), "PATH": "/usr/bin:/bin", "TMPDIR": str(own), "CUDA_VISIBLE_DEVICES": ""}
        home |= {"MPI4PY_LIBMPI": str(of_wheel)} if of_wheel else {}
        return subprocess.run(command, cwd=own, env=home, capture_output=True, text=True, timeout=300, check=False)

    job = [mpirun(), "-np", "2", python, central / "bench.py", central / "inputs/smoke.dat"]
    done = run(*job, *COMPILED)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "End of Tests." in done.stdout and "Traceback" not in done.stderr
    (folder,) = (own / "results").iterdir()
    assert folder.stat().st_uid == USER
    assert run(python, central / "bench.py", "--verify", folder).returncode == 0
    assert contents(central) == before
