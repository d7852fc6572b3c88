"""The installed package: importable from anywhere, even if another package is named `kernels`, and complete."""

import importlib.metadata
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from checkout import copy_checkout
from launch import BENCH, ROOT, mpirun, run_job
from packaging.requirements import Requirement

import bench

# Without the packages of this environment's own .pth files, which may contain the checkout.
ISOLATED = """
import site, sys
folder, packages, *expected = sys.argv[1:]
site.addsitedir(folder)
sys.path.append(packages)
import kernels
assert kernels.STRANGER
import hpcai.main
from hpcai.kernels import gemm
from hpcai.kernels.conv2d import reference
from hpcai.kernels.gemm import SPEC
print(hpcai.main.__file__, gemm.__file__, reference.__file__, sep="\\n")
"""

# Calls of kernels/, and the errors in them: line and code of mypy.
CALLS = """\
from hpcai.kernels import gemm
from hpcai.kernels.spec import DTYPES, Spec

specification: Spec[gemm.Shape] = gemm.SPEC
batch: int = gemm.Shape(1, 2, 3).batch
gemm.Shape(1, "2", 3)
gemm.operations(batch)
name: int = DTYPES["fp32"].operand
"""
WRONG = {6: "arg-type", 7: "arg-type", 8: "assignment"}


def pip_install(*arguments: str | Path) -> None:
    """Install without network."""
    quiet = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--ignore-installed"]
    environment = {**os.environ, "PIP_CONFIG_FILE": os.devnull, "PIP_ROOT_USER_ACTION": "ignore", "PIP_USER": "0"}
    command = [sys.executable, "-m", "pip", "install", *quiet, *map(str, arguments)]
    subprocess.run(command, env=environment, check=True, timeout=120)


def imported(folder: Path, elsewhere: Path) -> list[Path]:
    """Files of a few modules, imported by a Python started elsewhere."""
    command = [sys.executable, "-I", "-S", "-c", ISOLATED, str(folder), sysconfig.get_path("purelib")]
    output = subprocess.run(command, cwd=elsewhere, capture_output=True, text=True, check=False)
    assert output.returncode == 0, output.stderr
    return [Path(line) for line in output.stdout.splitlines()]


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkout, and another distribution whose package is named `kernels`."""
    folder = tmp_path_factory.mktemp("sources")
    (folder / "stranger/kernels").mkdir(parents=True)
    (folder / "stranger/kernels/__init__.py").write_text("STRANGER = True\n")
    (folder / "stranger/setup.py").write_text("import setuptools as s\ns.setup(name='kernels', packages=['kernels'])\n")
    copy_checkout(folder / "checkout")
    return folder


@pytest.fixture(scope="module")
def installed(sources: Path) -> Path:
    """A folder with both distributions installed."""
    pip_install("--target", sources / "installed", sources / "checkout", sources / "stranger")
    return sources / "installed"


@pytest.mark.slow
def test_an_installed_package_ignores_another_package_kernels(installed: Path, tmp_path: Path) -> None:
    files = imported(installed, tmp_path)
    assert [file.relative_to(installed).as_posix() for file in files] == [
        "hpcai/main.py",
        "hpcai/kernels/gemm/__init__.py",
        "hpcai/kernels/conv2d/reference.py",
    ]


@pytest.mark.exhaustive
def test_an_editable_package_ignores_another_package_kernels(sources: Path, tmp_path: Path) -> None:
    pip_install("--prefix", tmp_path, "--editable", sources / "checkout")
    pip_install("--prefix", tmp_path, sources / "stranger")
    files = imported(Path(sysconfig.get_path("purelib", vars={"base": str(tmp_path)})), tmp_path)
    assert [file.resolve().relative_to(sources / "checkout").as_posix() for file in files] == [
        "hpcai/main.py",
        "kernels/gemm/__init__.py",
        "kernels/conv2d/reference.py",
    ]


@pytest.mark.slow
def test_every_module_and_the_shipped_data_are_installed(installed: Path) -> None:
    modules = {path.relative_to(ROOT) for path in ROOT.glob("hpcai/**/*.py")}
    kernels = {Path("hpcai") / path.relative_to(ROOT) for path in ROOT.glob("kernels/**/*.py")}
    shipped = {path.relative_to(ROOT) for path in ROOT.glob("hpcai/data/shipped/*")}
    page = {path.relative_to(ROOT) for path in ROOT.glob("hpcai/ranking/page/page.*")}
    machines = {path.relative_to(ROOT) for path in ROOT.glob("hpcai/projection/machines/*.toml")}
    missing = [str(path) for path in modules | kernels | shipped | page | machines if not (installed / path).exists()]
    assert not missing
    assert shipped and machines and len(page) == 3


def ran(command: str, option: str, installed: Path, folder: Path) -> str:
    """The output of a command of the installed package, started elsewhere."""
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    words = [installed / "bin" / command, option]
    finished = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stderr) == (0, "")
    return finished.stdout


@pytest.mark.slow
def test_command_runs_from_anywhere(installed: Path, tmp_path: Path) -> None:
    assert metadata(installed).version in ran("hpcai-bench", "--version", installed, tmp_path)


@pytest.mark.slow
def test_every_installed_command_has_a_help(installed: Path, tmp_path: Path) -> None:
    commands = [entry.name for entry in metadata(installed).entry_points if entry.group == "console_scripts"]
    names = ("bench", "opcount", "plots", "projection", "ranking", "study")
    assert sorted(commands) == [f"hpcai-{name}" for name in names]
    for name in commands:
        assert ran(name, "--help", installed, tmp_path).startswith("usage: ")


def type_errors(folder: Path, program: Path) -> dict[int, str]:
    """Line and code of every error that mypy finds in a program that imports hpcai from a folder."""
    command = [sys.executable, "-m", "mypy", "--config-file", os.devnull, "--cache-dir", os.devnull, program]
    # folders on PYTHONPATH count as installed: mypy follows imports there only if py.typed allows it
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    ended = subprocess.run(command, cwd=program.parent, env=environment, capture_output=True, text=True, check=False)
    lines = [line for line in ended.stdout.splitlines() if ": error: " in line]
    return {int(line.split(":")[1]): line.rpartition("[")[2].rstrip("]") for line in lines}


@pytest.mark.exhaustive
@pytest.mark.parametrize("where", ["checkout", "installed"])
def test_wrong_types_in_calls_of_kernels_are_errors(where: str, installed: Path, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(CALLS)
    assert type_errors(ROOT if where == "checkout" else installed, tmp_path / "program.py") == WRONG


def metadata(installed: Path) -> importlib.metadata.Distribution:
    """The metadata of the installed distribution."""
    return next(iter(importlib.metadata.distributions(name="hpcai-bench", path=[str(installed)])))


@pytest.mark.slow
def test_tested_versions_are_within_the_ranges(installed: Path) -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    tested = dict(line.split("==") for line in lines if not line.startswith("#"))
    required = [Requirement(text) for text in metadata(installed).requires or []]
    without_gpu = [need for need in required if "gpu" not in str(need.marker)]
    assert len(without_gpu) >= 10
    for need in without_gpu:
        assert need.specifier, f"{need.name} has no range"
        assert need.specifier.contains(tested[need.name]), need


def test_bench_checks_every_required_package(installed: Path) -> None:
    required = [Requirement(text) for text in metadata(installed).requires or []]
    assert sorted(need.name for need in required if need.marker is None) == sorted(bench.REQUIRED)


def test_tested_versions_have_no_local_suffix() -> None:
    text = (ROOT / "constraints.txt").read_text()
    assert "/" not in text
    assert "+" not in text


NEEDS_MPIRUN = pytest.mark.skipif(mpirun() is None, reason="NO mpirun: MPI TEST NOT RUN")


@pytest.mark.parametrize("ranks", [None, pytest.param(2, marks=NEEDS_MPIRUN)])
def test_bench_without_its_packages_names_the_remedy_once(ranks: int | None, tmp_path: Path) -> None:
    finished = run_job(["-S", BENCH], ranks, tmp_path)
    assert finished.returncode == 2
    lines = [line for line in finished.stderr.splitlines() if "make install" in line]
    assert len(lines) == 1
    assert "torch" in lines[0]
    assert ranks or finished.stderr.splitlines() == lines
