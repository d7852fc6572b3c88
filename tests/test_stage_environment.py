"""contrib/stage_environment.sh: a copy of checkout and environment that needs nothing of the original."""

import subprocess
import sys
from pathlib import Path

import pytest
from checkout import copy_checkout
from launch import ROOT

Done = subprocess.CompletedProcess[str]


def stage(checkout: Path, *arguments: object) -> Done:
    command = ["bash", str(checkout / "contrib/stage_environment.sh"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with an environment that has the packages of this one, and finds the program in the checkout."""
    found = copy_checkout(tmp_path / "a checkout")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(found / ".venv")], check=True)
    (packages,) = (found / ".venv/lib").glob("python*/site-packages")
    others = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "others.pth").write_text("\n".join(others))
    (packages / "__editable__.hpcai_bench.pth").write_text(f"{found}/\n")
    (found / ".venv/bin/tool").write_text(f"#!{found}/.venv/bin/python\n")
    (found / ".venv/.complete").touch()
    return found


def test_a_staged_copy_needs_nothing_of_the_original(checkout: Path, tmp_path: Path) -> None:
    archive, target = tmp_path / "hpcai.tar", tmp_path / "local"
    assert (packed := stage(checkout, "pack", archive)).returncode == 0, packed.stderr
    for _ in range(2):  # the second time it is there already
        assert (unpacked := stage(checkout, "unpack", archive, target)).returncode == 0, unpacked.stderr
    checkout.rename(tmp_path / "gone")
    python = target / ".venv/bin/python"
    program = "import hpcai.cli, hpcai.kernels.gemm as gemm, sys; print(hpcai.cli.__file__, gemm.__file__, sys.prefix)"
    done = subprocess.run([python, "-P", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all(path.startswith(f"{target}/") for path in done.stdout.split())
    assert (target / ".venv/bin/tool").read_text() == f"#!{target}/.venv/bin/python\n"
    version = subprocess.run([python, target / "bench.py", "--version"], cwd=tmp_path, capture_output=True, text=True)
    assert version.stdout.startswith("hpcai-bench "), version.stderr


def test_a_newer_archive_replaces_a_copy(checkout: Path, tmp_path: Path) -> None:
    archive, target = tmp_path / "hpcai.tar", tmp_path / "local"
    stage(checkout, "pack", archive)
    stage(checkout, "unpack", archive, target)
    (checkout / "hpcai/added.py").touch()
    stage(checkout, "pack", archive)
    stage(checkout, "unpack", archive, target)
    assert (target / "hpcai/added.py").exists()


def test_an_incomplete_environment_and_wrong_arguments_are_refused(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    (checkout / "contrib").mkdir(parents=True)
    script = checkout / "contrib/stage_environment.sh"
    script.write_bytes((ROOT / "contrib/stage_environment.sh").read_bytes())
    refused = stage(checkout, "pack", tmp_path / "x.tar")
    assert refused.returncode == 2 and "is not complete; allowed: after make install" in refused.stderr
    assert not (tmp_path / "x.tar").exists()
    assert stage(checkout, "unpack").returncode == 2
