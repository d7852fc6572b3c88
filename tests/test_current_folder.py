"""No code of the current folder is run: a numpy.py beside input.dat is not what the documented commands import."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from checkout import copy_checkout
from launch import ROOT

PLANTED = ("numpy", "torch", "typing", "mpi4py", "h5py", "socket", "contextlib")
TRAP = "import os\nos.write(2, b'TRAPPED ' + __name__.encode() + b'\\n')\nos._exit(99)\n"
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "inputs").rglob("*.dat"), ROOT / "Makefile"]
TEXTS = {path: path.read_text("utf-8") for path in [*DOCUMENTS, *(ROOT / "hpcai").rglob("*.py")]}
MODULES = sorted({name for text in TEXTS.values() for name in re.findall(r"python -P -m (hpcai[\w.]*\w)", text)})
SCRIPTS = re.findall(r'"(hpcai-\w+) = ', (ROOT / "setup.py").read_text("utf-8"))


def plant(folder: Path) -> Path:
    """Files that would be imported instead of libraries."""
    for name in PLANTED:
        (folder / f"{name}.py").write_text(TRAP)
    return folder


def ran(folder: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONSAFEPATH"}
    environment["PYTHONPATH"] = str(ROOT)
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def test_commands_in_documents_and_messages_do_not_look_in_the_current_folder() -> None:
    unsafe = re.compile(r"python3? (?!-P )(-m hpcai|-c )")
    assert not [str(path) for path, text in TEXTS.items() if unsafe.search(text)]
    assert unsafe.search("python -m hpcai.opcount") and len(MODULES) >= 9


@pytest.mark.parametrize("module", MODULES)
def test_modules_run_nothing_of_the_current_folder(module: str, tmp_path: Path) -> None:
    done = ran(plant(tmp_path), sys.executable, "-P", "-m", module, "--help")
    assert "TRAPPED" not in done.stderr
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("script", SCRIPTS)
def test_console_scripts_run_nothing_of_the_current_folder(script: str, tmp_path: Path) -> None:
    done = ran(plant(tmp_path), Path(sys.executable).with_name(script), "--help")
    assert "TRAPPED" not in done.stderr
    assert done.returncode == 0, done.stderr


def test_processes_of_the_lists_run_nothing_of_the_current_folder(tmp_path: Path) -> None:
    program = tmp_path / "elsewhere" / "program.py"
    program.parent.mkdir()
    program.write_text(
        "from hpcai.ranking.pool import mapped\nif __name__ == '__main__':\n    print(mapped(abs, range(20), 2))\n"
    )
    done = ran(plant(tmp_path), sys.executable, program)
    assert "TRAPPED" not in done.stderr and done.stdout == f"{[*range(20)]}\n", done.stderr


def test_the_trap_is_one(tmp_path: Path) -> None:
    assert "TRAPPED" in ran(plant(tmp_path), sys.executable, "-m", "hpcai.opcount", "--help").stderr


@pytest.mark.exhaustive
def test_bench_runs_nothing_of_its_own_folder_or_the_current_one(tmp_path: Path) -> None:
    checkout = plant(copy_checkout(tmp_path / "checkout"))
    shutil.copytree(ROOT / "kernels/__pycache__", checkout / "kernels/__pycache__", dirs_exist_ok=True)
    for folder in (checkout, plant(tmp_path)):
        problem = checkout / "inputs/smoke.dat"
        done = ran(folder, sys.executable, checkout / "bench.py", problem, "--plan", "--ranks", "2")
        assert "TRAPPED" not in done.stderr
        assert done.returncode == 0, done.stderr
