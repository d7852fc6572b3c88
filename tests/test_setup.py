"""The behaviour of `make` on several kinds of machines; stand-ins for Python, mpirun and nvidia-smi record calls."""

import os
import signal
import subprocess
from pathlib import Path

import pytest
from fake_machine import MPIRUN, Machine
from launch import ROOT, wait_until

DRIVER = Path("/proc/driver/nvidia/version")
TESTED_TORCH = next(
    line.removeprefix("torch==")
    for line in (ROOT / "constraints.txt").read_text().splitlines()
    if line.startswith("torch==")
)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_install_is_done_once_and_silent_on_stdout(machine: Machine) -> None:
    machine.add("mpirun", MPIRUN)
    assert (first := machine.make("install")).returncode == 0, first.stderr
    assert first.stdout == ""
    asked = machine.asked
    assert "-c constraints.txt -e .[page" in asked
    assert machine.make("install").returncode == 0
    assert machine.asked == asked
    machine.edit_later("constraints.txt")
    assert machine.make("install").returncode == 0
    assert machine.asked == 2 * asked


def test_tests_and_lint_add_what_they_need_once(machine: Machine) -> None:
    machine.add("mpirun", MPIRUN)
    machine.make("run")
    assert "-e .[test]" not in machine.asked
    for _ in range(2):
        assert machine.make("faults", PYTHONPATH="").returncode == 2  # the stand-in has no tests
    assert machine.asked.count("install --no-compile -c constraints.txt -e .[test]\n") == 1


def test_install_compiles_all_packages_and_a_run_none(machine: Machine) -> None:
    compiled = machine.checkout / ".venv/lib/__pycache__"
    machine.add("mpirun", MPIRUN)
    machine.make("run")
    assert machine.ready and not compiled.exists() and " install --no-compile -c" in machine.asked
    machine.make("install")
    assert [file.name.split(".")[0] for file in compiled.iterdir()] == ["module"]


def test_developers_may_install_it_at_once(machine: Machine) -> None:
    machine.make("install", MPI="wheel")
    assert machine.make("install", DEV="yes").returncode == 0
    assert machine.asked.endswith("install --no-compile -c constraints.txt -e .[test]\n")


def test_run_prints_the_report_alone(machine: Machine) -> None:
    machine.add("mpirun", MPIRUN)
    for environment in ({}, {"MAKEFLAGS": "j2"}, {"NP": "3", "INPUT": "my file.dat"}):
        finished = machine.make("run", **environment)
        ranks, file = environment.get("NP", "2"), environment.get("INPUT", "input.dat")
        command = f"<-np><{ranks}><.venv/bin/python><bench.py><{file}>"
        assert (finished.stdout, finished.returncode) == ("report as root: not asked\n" + command, 0)


@pytest.mark.parametrize(
    ("environment", "shown"),
    [({}, ""), ({"NP": "4"}, ""), ({"NP": "1"}, "all"), ({"CUDA_VISIBLE_DEVICES": "0"}, "0")],
)
def test_a_run_on_more_ranks_than_gpus_uses_cpus(
    machine: Machine, environment: dict[str, str], shown: str
) -> None:
    machine.add("mpirun", MPIRUN.replace("${OMPI_ALLOW_RUN_AS_ROOT:-not asked}", "[${CUDA_VISIBLE_DEVICES-all}]"))
    machine.add("nvidia-smi", "#!/bin/bash\necho 'GPU 0: Example (UUID: GPU-0)'\necho '  MIG 1g.5gb Device 0: (...)'\n")
    finished = machine.make("run", **environment)
    assert finished.returncode == 0 and f"root: [{shown}]\n" in finished.stdout
    assert ("computing on CPUs; NP=1 uses the GPUs" in finished.stderr) == (shown == "")


def test_run_fails_with_the_program(machine: Machine) -> None:
    machine.add("mpirun", MPIRUN)
    assert machine.make("run", STATUS="1").returncode == 2
    assert machine.ready


def test_help_lists_every_verb(machine: Machine) -> None:
    verbs = {line.split()[1] for line in machine.make().stdout.splitlines()}
    everyday = {"help", "install", "openmpi", "mpi", "run", "test", "lint", "bench", "clean"}
    of_tests = {f"test-{kind}" for kind in ("slow", "all", "network", "slurm", "mpi", "hosts", "N", "exhaustive")}
    assert verbs == everyday | of_tests | {"faults", "golden", "wheelhouse", "gpu-check"}


def test_clean_keeps_results(machine: Machine) -> None:
    machine.make("install", MPI="wheel")
    (machine.checkout / "results/mine").mkdir(parents=True)
    (machine.checkout / "hpcai/__pycache__").mkdir(parents=True)
    assert machine.make("clean").returncode == 0
    assert not (machine.checkout / ".venv").exists()
    assert not (machine.checkout / "hpcai/__pycache__").exists()
    assert (machine.checkout / "results/mine").exists()


@pytest.mark.skipif(DRIVER.exists(), reason="there is an NVIDIA driver")
def test_no_gpu_package_without_a_driver(machine: Machine) -> None:
    machine.add("nvidia-smi", "#!/bin/bash\nexit 9\n")
    machine.make("install", MPI="wheel")
    assert "-e .[page,mpich] torch\n" in machine.asked


def test_a_driver_adds_gpu_packages_and_torch_with_cuda(machine: Machine) -> None:
    machine.add("nvidia-smi", "#!/bin/bash\n")
    machine.make("install", MPI="wheel", OFFERED=f"9.0, {TESTED_TORCH}+cpu, {TESTED_TORCH}, 2.0")
    assert f"-e .[page,gpu,mpich] torch!={TESTED_TORCH}+cpu\n" in machine.asked


def test_a_driver_with_a_cpu_torch_is_reported(machine: Machine) -> None:
    machine.add("nvidia-smi", "#!/bin/bash\n")
    finished = machine.make("install", MPI="wheel", OFFERED=f"9.0, {TESTED_TORCH}+cpu, 2.0")
    assert "torch\n" in machine.asked
    assert f"WARNING: no index offers torch {TESTED_TORCH} with CUDA" in finished.stderr


def test_gpu_can_be_declined(machine: Machine) -> None:
    machine.add("nvidia-smi", "#!/bin/bash\n")
    machine.make("install", MPI="wheel", GPU="no")
    assert "-e .[page,mpich] torch\n" in machine.asked


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_install_is_not_considered_complete(machine: Machine, signum: signal.Signals) -> None:
    with machine.start("install", MPI="wheel", INSTALL_SECONDS="60") as process:
        assert wait_until(lambda: machine.asked, 30)
        (machine.checkout / ".venv/ruin").touch()
        os.killpg(process.pid, signum)
        assert process.wait(30) != 0
    assert not machine.ready
    assert signum == signal.SIGKILL or not (machine.checkout / ".venv").exists()
    assert machine.make("install", MPI="wheel").returncode == 0
    assert machine.ready
    assert not (machine.checkout / ".venv/ruin").exists()


def test_a_failed_install_leaves_nothing(machine: Machine) -> None:
    assert machine.make("install", MPI="wheel", INSTALL_SECONDS="no number").returncode != 0
    assert not (machine.checkout / ".venv").exists()


@pytest.mark.parametrize("choice", ["MPI=mpich", "MPI=/no/mpirun", "GPU=on", "SYSTEM=on", "DEV=on"])
def test_an_unknown_choice_is_refused_in_one_line(machine: Machine, choice: str) -> None:
    finished = machine.make("install", choice)
    assert finished.returncode != 0
    assert choice in finished.stderr
    assert len(finished.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("lacking", "cure"),
    [("ensurepip", "apt-get install python3-venv"), ("version_info", "older than 3.11"), (None, "there is no")],
)
def test_an_unsuitable_python_is_refused_in_one_line(machine: Machine, lacking: str | None, cure: str) -> None:
    python = machine.programs / "other"
    if lacking:
        machine.add("other", f'#!/bin/bash\ncase "$*" in *{lacking}*) echo Traceback >&2; exit 1 ;; esac\n')
    finished = machine.make("run", PYTHON=str(python))
    assert finished.returncode != 0
    assert finished.stdout == ""
    assert len(finished.stderr.splitlines()) == 1
    assert cure in finished.stderr
    assert not (machine.checkout / ".venv").exists()


@pytest.mark.parametrize(("installed", "said"), [("true", ""), ("false", "WARNING: Open MPI could not be installed: ")])
def test_integration_script_ends_with_the_summary(tmp_path: Path, installed: str, said: str) -> None:
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci/run").write_bytes((ROOT / ".ci/run").read_bytes())
    tested = "echo \"verbs: $*, without${HPCAI_TEST_WITHOUT#chromium}\"; echo == 1 failed ==; exit 2"
    programs = {"id": "echo 1000", "dpkg": "exit 0"}
    programs["make"] = f"if [ \"$1\" = openmpi ]; then {installed}; exit; fi; {tested}"
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "HPCAI_TEST_WITHOUT": ""}
    finished = subprocess.run(["bash", ".ci/run"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    *before, verbs, summary = finished.stdout.splitlines()
    without = " slurm openmpi" if said else " slurm"  # whose daemons this user cannot start
    assert (verbs, summary) == (f"verbs: lint test-all, without{without}", "== 1 failed ==")
    assert len(before) == bool(said) and all(line.startswith(said) for line in before)
    assert finished.returncode == 2
