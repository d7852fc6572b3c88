"""Jobs that cannot be run are refused by all ranks, with one message, before anything is written."""

import gzip
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution
from pathlib import Path

import mpi4py
import open_mpi
import pytest
from job_folder import END, START, listing, prepared, unlike
from launch import BENCH, Finished, Job, mpirun, run_job
from machine_requirements import missing

needs_mpirun = pytest.mark.skipif(mpirun() is None, reason="NO mpirun: REFUSALS NOT TESTED")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder to run in."""
    return prepared(tmp_path)


def refused(job: Finished, folder: Path, before: list[str], code: int = 2) -> list[str]:
    """Nothing ran, nothing was written; the lines of the message, which is printed once."""
    assert job.returncode == code
    assert job.stdout == "" and job.leftovers == []
    assert listing(folder) == before
    assert job.stderr.count("hpcai: ") == 1 and "Traceback" not in job.stderr
    return job.stderr.splitlines()


@needs_mpirun
@pytest.mark.parametrize(
    ("ranks", "environment"),
    [
        (None, {"PMI_SIZE": "3"}),
        (None, {"MPI_LOCALNRANKS": "3"}),
        (None, {"SLURM_NTASKS": "3", "SLURM_PROCID": "0"}),
        (2, {"OMPI_COMM_WORLD_SIZE": "3"}),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else f"{value or 1} ranks",
)
def test_launcher_of_another_mpi_is_refused(folder: Path, ranks: int | None, environment: dict[str, str]) -> None:
    before = listing(folder)
    (line,) = refused(run_job([BENCH], ranks, folder, START, environment), folder, before)
    name, size = next(iter(environment.items()))
    assert f"the launcher started {size} ranks ({name}={size}) but MPI_COMM_WORLD has {ranks or 1}" in line


@needs_mpirun
def test_copies_of_another_launcher_print_one_message(folder: Path) -> None:
    before = listing(folder)
    copies = [
        run_job([BENCH], None, folder, START, {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": rank})
        for rank in ("0", "1")
    ]
    refused(copies[0], folder, before)
    assert (copies[1].returncode, copies[1].stdout, "hpcai: " in copies[1].stderr) == (2, "", False)


@needs_mpirun
def test_launcher_that_is_wrong_for_one_rank_alone_is_refused_by_all(folder: Path) -> None:
    before = listing(folder)
    arguments = unlike("-env", "OMPI_COMM_WORLD_SIZE", "5")
    (line,) = refused(run_job(arguments, 1, folder, END), folder, before)
    assert "OMPI_COMM_WORLD_SIZE=5" in line and "MPI_COMM_WORLD has 2" in line


@needs_mpirun
def test_mpich_under_the_mpirun_of_open_mpi_is_refused_before_it_aborts(folder: Path) -> None:
    if not (open_mpi.PLACE / ".complete").exists():
        missing("NO OPEN MPI: ITS MPIRUN IS NOT TRIED WITH ANOTHER MPI; `make openmpi` installs it", "openmpi")
    if "HYDRA" not in subprocess.run([str(mpirun()), "--version"], capture_output=True, text=True).stdout:
        pytest.skip("NO MPICH: its ranks are not started by another mpirun")
    before = listing(folder)
    with Job([f"{open_mpi.PLACE}/bin/mpirun", "-np", "2", sys.executable, str(BENCH)], folder, dict(os.environ)) as job:
        ended = job.wait(START)
    assert ended.returncode == 2 and listing(folder) == before and "Abort(" not in ended.stderr
    (line,) = [line for line in ended.stderr.splitlines() if line.startswith("hpcai:")]
    assert "the launcher started 2 ranks (OMPI_COMM_WORLD_SIZE=2) by PMIx, but mpi4py uses MPICH" in line


@pytest.mark.skipif(any(Path(mpi4py.__path__[0]).glob("MPI.cpython*")), reason="mpi4py was built for one MPI")
def test_without_a_library_of_mpi_one_line_says_so(folder: Path) -> None:
    before = listing(folder)
    ended = run_job([BENCH], None, folder, END, {"MPI4PY_LIBMPI": str(folder / "libmpi.so")})
    (line,) = refused(ended, folder, before)
    assert "mpi4py finds no MPI" in line and "MPI4PY_LIBMPI" in line


CODES = """
import os, pathlib, sys
from hpcai.main import main
code = main(sys.argv[1:])
from mpi4py import MPI
pathlib.Path(os.environ["CODES"], str(MPI.COMM_WORLD.rank)).write_text(str(code))
sys.exit(code)
"""


@pytest.fixture
def codes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder where each of three ranks leaves its exit code; all must be 2."""
    path = tmp_path_factory.mktemp("codes")
    yield path
    assert {file.name: file.read_text() for file in path.iterdir()} == dict.fromkeys("012", "2")


@needs_mpirun
@pytest.mark.parametrize(
    ("settings", "reasons"),
    [
        (["DEGREE=5"], ["DEGREE"]),
        (["NETWORK=resnet9", "EPOCHS=0.5"], ["NETWORK", "resnet9", "EPOCHS", "0.5"]),
        pytest.param(
            ["BATCH=63", "DEGREE=3", "SAMPLES=3"], ["3 training samples for 3 ranks"], marks=pytest.mark.slow
        ),
        (["DATASET=fashion:nowhere"], ["nowhere"]),
    ],
    ids=lambda value: value[0],
)
def test_bad_input_is_refused_by_all_ranks(folder: Path, codes: Path, settings: list[str], reasons: list[str]) -> None:
    before = listing(folder)
    job = run_job(["-c", CODES, "--set", *settings], 3, folder, START, {"CODES": str(codes)})
    lines = refused(job, folder, before)
    assert all(any(reason in line for line in lines) for reason in reasons), lines


@needs_mpirun
def test_missing_input_and_wrong_options_are_refused_by_all_ranks(folder: Path, codes: Path) -> None:
    before = listing(folder)
    for arguments, reason in ((["absent.dat"], "absent.dat"), (["--frobnicate"], "--frobnicate")):
        job = run_job(["-c", CODES, *arguments], 3, folder, START, {"CODES": str(codes)})
        assert reason in refused(job, folder, before)[0]


@pytest.mark.slow  # as in test_data_damage.py for other files
@needs_mpirun
def test_damaged_data_are_refused_by_all_ranks(folder: Path, codes: Path) -> None:
    (labels,) = (folder / "images").glob("train-labels*")
    labels.write_bytes(gzip.compress(labels.read_bytes()))
    before = listing(folder)
    job = run_job(["-c", CODES], 3, folder, START, {"CODES": str(codes)})
    assert str(labels) in refused(job, folder, before)[0]


@pytest.mark.slow
@needs_mpirun
def test_result_folder_that_cannot_be_made_ends_the_job_with_its_path(folder: Path) -> None:
    (folder / "results").write_text("not a folder")
    before = listing(folder)
    (line,) = [
        line for line in refused(run_job([BENCH], 2, folder, START), folder, before, 3) if line.startswith("hpcai: ")
    ]
    assert f"cannot make the result folder {folder / 'results'}" in line


OTHER_NODE = """
import os, sys
if os.environ["PMI_RANK"] == "1":
    os.environ["CXX"] = "false"
from hpcai.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
@needs_mpirun
@pytest.mark.skipif(not shutil.which("g++"), reason="NO g++: COMPILERS NOT COMPARED")
@pytest.mark.skipif(not [*Distribution.discover(name="mpich")], reason="NO mpich WHEEL: NODES CANNOT BE PRETENDED")
def test_a_node_without_a_compiler_is_refused_by_all_ranks(folder: Path) -> None:
    before, each_a_node = listing(folder), {"MPIR_CVAR_NOLOCAL": "1"}
    job = run_job(["-c", OTHER_NODE, "--set", "COMPILE=torch"], 2, folder, START, each_a_node)
    (line,) = refused(job, folder, before)
    assert line.startswith("hpcai: rank 1 on ") and "COMPILE torch: false cannot build what it writes" in line
