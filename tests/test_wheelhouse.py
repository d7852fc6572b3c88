"""Wheels for machines without a network: the packages collected for each target, and an installation from them."""

import os
import re
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from checkout import copy_checkout
from fake_machine import MPIRUN, Machine
from launch import ROOT

sys.path.append(str(ROOT / "contrib"))
import wheelhouse
from wheelhouse import Requirement, Target, Wanted, applicable, collect, fitting, platforms

NOWHERE = {"PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_EXTRA_INDEX_URL": "", "PIP_CONFIG_FILE": os.devnull}
HAS_CUDA = re.findall('HAS_CUDA = "(.+)"', (ROOT / "setup.py").read_text())[0]
OTHER = Target("manylinux_2_28_aarch64", "3.13")


def make_wheel(folder: Path, name: str, *needs: str, tag: str = "py3-none-any") -> Path:
    """A wheel that contains only its metadata."""
    distribution, version = name.split("-")
    path = folder / f"{name}-{tag}.whl"
    lines = ["Metadata-Version: 2.1", f"Name: {distribution}", f"Version: {version}"]
    with ZipFile(path, "w") as file:
        file.writestr(f"{name}.dist-info/METADATA", "\n".join([*lines, *(f"Requires-Dist: {n}" for n in needs), "\n"]))
    return path


def collected(folder: Path, wanted: Wanted, monkeypatch: pytest.MonkeyPatch, target: Target) -> tuple[list[str], str]:
    """Packages that would be downloaded, and the options of pip; all are found at once."""
    calls = []

    def pip(*arguments: str) -> None:
        calls.append(arguments)
        for need in map(Requirement, arguments[arguments.index("--dest") + 2 :]):
            make_wheel(folder, f"{need.name}-9.0")

    monkeypatch.setattr(wheelhouse, "pip", pip)
    collect(folder, wanted, target)
    asked = [word for call in calls for word in call[call.index("--dest") + 2 :]]
    return asked, " ".join(calls[0]) if calls else ""


def wanted(*needs: str, without: tuple[str, ...] = (), tested: tuple[str, ...] = ()) -> Wanted:
    """Requirements as one text."""
    made = Wanted(without, map(Requirement, tested))
    for need in needs:
        made.add(Requirement(need))
    return made


def test_wheels_for_older_libraries_of_the_same_machine_are_accepted() -> None:
    tags = platforms("manylinux_2_28_x86_64")
    assert tags[0] == "manylinux_2_28_x86_64" and tags[-1] == "linux_x86_64"
    assert {"manylinux_2_17_x86_64", "manylinux2014_x86_64", "manylinux_2_5_x86_64", "manylinux1_x86_64"} <= {*tags}
    assert "manylinux_2_34_x86_64" not in tags
    assert platforms("manylinux2014_aarch64") == platforms("manylinux_2_17_aarch64")
    assert platforms("musllinux_1_1_x86_64") == ["musllinux_1_1_x86_64", "musllinux_1_0_x86_64", "linux_x86_64"]
    assert platforms("linux_riscv64") == ["linux_riscv64"]
    assert platforms("") == []


def test_markers_are_those_of_the_target() -> None:
    lines = ["a; python_version >= '3.13'", "b; python_version < '3.13'", "c; platform_machine == 'aarch64'", "d"]
    lines += ["e; extra == 'test'", "f; extra == 'gpu'"]
    assert [need.name for need in applicable(lines, ["test"], OTHER.environment)] == ["a", "c", "d", "e"]


def test_compilers_for_gpus_are_collected_on_another_system(monkeypatch: pytest.MonkeyPatch) -> None:
    mac = {"platform_system": "Darwin", "sys_platform": "darwin", "platform_machine": "arm64", "extra": ""}
    monkeypatch.setattr(wheelhouse, "default_environment", lambda: mac)
    lines = [f"{name}; {HAS_CUDA}" for name in ("cupy-cuda13x", "nvidia-cuda-nvrtc")]
    for platform, there in (("manylinux_2_28_x86_64", 2), ("manylinux2014_aarch64", 2), ("linux_riscv64", 0), ("", 0)):
        assert len([*applicable(lines, [], Target(platform, "").environment)]) == there


@pytest.mark.parametrize(
    ("tag", "fits"),
    [
        ("py3-none-any", True),
        ("cp313-cp313-manylinux_2_28_aarch64", True),
        ("cp313-cp313-manylinux_2_17_aarch64.manylinux2014_aarch64", True),
        ("cp39-abi3-manylinux2014_aarch64", True),
        ("cp313-cp313-manylinux_2_34_aarch64", False),
        ("cp313-cp313-manylinux_2_28_x86_64", False),
        ("cp312-cp312-manylinux_2_28_aarch64", False),
    ],
)
def test_wheels_of_the_folder_are_used_where_they_fit(tmp_path: Path, tag: str, fits: bool) -> None:
    wheel = make_wheel(tmp_path, "part_a-1.5", tag=tag)
    assert fitting(tmp_path, Requirement("part-A>=1"), OTHER) == (wheel if fits else None)
    assert fitting(tmp_path, Requirement("part-A>=2"), OTHER) is None


def test_indirect_requirements_are_collected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_wheel(tmp_path, "top-1.0", "middle[more]>=2", "gone; python_version < '3.0'")
    make_wheel(tmp_path, "middle-2.0", "bottom; extra == 'more'", "never; extra == 'less'")
    asked, options = collected(tmp_path, wanted("top", tested=("bottom==9.0",)), monkeypatch, OTHER)
    assert asked == ["bottom==9.0"]
    assert "--platform=manylinux_2_17_aarch64" in options and "--python-version=3.13" in options
    assert collected(tmp_path, wanted("top"), monkeypatch, OTHER) == ([], "")


def test_version_ranges_of_two_packages_are_combined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_wheel(tmp_path, "one-1.0", "common>=3")
    make_wheel(tmp_path, "two-1.0", "common<10")
    make_wheel(tmp_path, "common-1.0")
    asked, _ = collected(tmp_path, wanted("one", "two"), monkeypatch, OTHER)
    assert [re.split("(?=[<>])", need, maxsplit=1)[0] for need in asked] == ["common"]
    assert {*asked[0].removeprefix("common").split(",")} == {">=3", "<10"}


def test_packages_of_the_target_are_omitted_with_their_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_wheel(tmp_path, "top-1.0", "Big_One", "small")
    make_wheel(tmp_path, "big_one-1.0", "huge")
    assert collected(tmp_path, wanted("top", without=("big-one",)), monkeypatch, OTHER)[0] == ["small"]
    assert "huge" in collected(tmp_path, wanted("top"), monkeypatch, OTHER)[0]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_wheelhouse_replaces_every_index(machine: Machine) -> None:
    (machine.checkout / "my wheels").mkdir()
    (machine.checkout / "my wheels/any.whl").touch()
    assert machine.make("install", MPI="wheel", WHEELHOUSE="my wheels").returncode == 0
    assert "install --no-compile --no-index --find-links my wheels -c constraints.txt -e .[page" in machine.asked


def test_a_wheelhouse_without_wheels_is_reported(machine: Machine) -> None:
    finished = machine.make("install", WHEELHOUSE="nowhere")
    assert finished.returncode != 0
    assert "no wheels in nowhere: make wheelhouse collects them" in finished.stderr
    assert machine.asked == "" and not (machine.checkout / ".venv").exists()


def test_packages_of_the_site_are_used_in_their_versions(machine: Machine) -> None:
    machine.add("mpirun", MPIRUN)
    machine.make("install")
    assert (machine.checkout / ".venv/made").read_text() == "-m venv .venv\n"
    assert machine.make("clean", "install", SYSTEM="yes").returncode == 0
    assert (machine.checkout / ".venv/made").read_text() == "-m venv --system-site-packages .venv\n"
    assert "-c .venv/constraints.txt -e .[page] torch\n" in machine.asked
    pinned = {line.partition("==")[0] for line in (machine.checkout / ".venv/constraints.txt").read_text().splitlines()}
    assert "numpy" in pinned and not {"torch", "typing_extensions"} & pinned


def test_mpirun_of_the_wheel_is_installed_although_the_site_has_the_wheel(machine: Machine) -> None:
    assert machine.make("install", SYSTEM="yes", MPI="wheel").returncode == 0
    assert "--force-reinstall --no-deps mpi4py mpich" in machine.asked


@pytest.mark.network
def test_installs_from_the_wheelhouse_and_the_site_alone(tmp_path: Path) -> None:
    checkout = copy_checkout(tmp_path / "a checkout")
    site = next(path for path in sys.path if path.endswith("site-packages"))
    numpy = subprocess.check_output([sys.executable, "-c", "import numpy; print(numpy.__version__)"], text=True).strip()
    packages = [line.partition("==")[0] for line in (ROOT / "constraints.txt").read_text().splitlines()]
    without = {*packages, "torch"} - {"setuptools", "mpi4py", "mpich"}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    choices = {"PYTHON": sys.executable, "MPI": "wheel", "GPU": "no"}

    def make(verb: str, **environment: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(["make", verb], cwd=checkout, env={**inherited, **choices, **environment}, text=True)
        assert done.returncode == 0
        return done

    make("wheelhouse", WITHOUT=" ".join(without))
    names = {path.name.partition("-")[0] for path in (checkout / "wheelhouse").iterdir()}
    assert names == {"setuptools", "mpi4py", "mpich", "pip", "wheel"}
    make("install", WHEELHOUSE="wheelhouse", SYSTEM="yes", PYTHONPATH=site, **NOWHERE)
    program = "import numpy, torch, hpcai; from mpi4py.MPI import COMM_WORLD as world"
    program += "; print(f'{world.size} {numpy.__version__} {hpcai.__file__}\\n', end='', flush=True)"
    command = [checkout / ".venv/bin/mpirun", "-np", "2", checkout / ".venv/bin/python", "-c", program]
    output = subprocess.check_output(command, env={**inherited, "PYTHONPATH": site}, cwd=tmp_path, text=True)
    assert output == 2 * f"2 {numpy} {checkout}/hpcai/__init__.py\n"
