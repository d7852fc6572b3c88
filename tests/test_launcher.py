"""Variables that launchers leave in the environment, compared with the number of ranks of MPI."""

import pytest

from hpcai.errors import LaunchError
from hpcai.machine.launcher import (
    check_library,
    check_size,
    declared_size,
    declared_sizes,
    environment_rank,
    no_library,
)

HYDRA = {"PMI_RANK": "2", "PMI_SIZE": "4", "MPI_LOCALNRANKS": "4"}
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "4"}
SLURM = {"SLURM_PROCID": "2", "SLURM_NTASKS": "4"}
SBATCH_SHELL = {"SLURM_NTASKS": "16"}


@pytest.mark.parametrize("environment", [HYDRA, OPEN_MPI, SLURM, {**SLURM, **HYDRA}, {**SBATCH_SHELL, **OPEN_MPI}])
def test_a_launcher_is_accepted_if_mpi_agrees(environment: dict[str, str]) -> None:
    check_size(environment, 4)
    assert environment_rank(environment) == 2
    assert declared_size(environment) == 4


@pytest.mark.parametrize("environment", [HYDRA, OPEN_MPI, SLURM])
@pytest.mark.parametrize("size", [1, 3, 5])
def test_a_size_that_differs_from_mpis_is_refused_with_both(environment: dict[str, str], size: int) -> None:
    with pytest.raises(LaunchError) as refused:
        check_size(environment, size)
    name = next(iter(declared_sizes(environment)))
    assert f"{name}=4" in str(refused.value) and f"MPI_COMM_WORLD has {size}" in str(refused.value)
    assert refused.value.exit_code == 2


@pytest.mark.parametrize("environment", [{}, SBATCH_SHELL, {"PMI_SIZE": ""}, {"PMI_SIZE": "many", "PMI_RANK": "-1"}])
def test_without_a_launcher_there_is_one_rank(environment: dict[str, str]) -> None:
    check_size(environment, 1)
    assert environment_rank(environment) == 0
    assert declared_size(environment) == 1


def test_copies_started_as_single_ranks_are_refused() -> None:
    check_size({"MPI_LOCALNRANKS": "2"}, 8)
    with pytest.raises(LaunchError, match="MPI_LOCALNRANKS=2"):
        check_size({"MPI_LOCALNRANKS": "2"}, 1)


def test_two_launchers_that_disagree_are_refused() -> None:
    environment = {**HYDRA, "OMPI_COMM_WORLD_SIZE": "8"}
    for size in (4, 8):
        with pytest.raises(LaunchError):
            check_size(environment, size)


def test_slurms_count_of_an_outer_step_is_ignored_inside_an_mpirun() -> None:
    check_size({"SLURM_PROCID": "0", "SLURM_NTASKS": "1", **HYDRA}, 4)
    with pytest.raises(LaunchError, match="SLURM_NTASKS=4"):
        check_size(SLURM, 1)


MPICH = "MPICH Version:      5.0.2\nMPICH configure:    --with-device=ch4:ucx"
PMIX = {"PMIX_NAMESPACE": "prterun-vm@1", "PMIX_RANK": "0"}


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({**PMIX, **OPEN_MPI}, r"4 ranks \(OMPI_COMM_WORLD_SIZE=4\) by PMIx, but mpi4py uses MPICH 5.0.2: mpirun"),
        ({**PMIX, **SLURM}, r"4 ranks \(SLURM_NTASKS=4\) by PMIx"),
        ({**PMIX, **HYDRA}, r"4 ranks \(PMI_SIZE=4\) by PMIx.* or unset PMIX_NAMESPACE if it is left over"),
        (PMIX, r"this rank \(PMIX_NAMESPACE=prterun-vm@1\) by PMIx"),
    ],
)
def test_mpich_is_not_started_where_it_would_abort(environment: dict[str, str], said: str) -> None:
    with pytest.raises(LaunchError, match=said):
        check_library(environment, MPICH)
    for other in (f"{MPICH} --with-pmix=/usr", "Open MPI v5.0.11", "Intel(R) MPI Library 2021.17"):
        check_library(environment, other)


@pytest.mark.parametrize("environment", [{}, HYDRA, OPEN_MPI, SLURM])
def test_mpich_is_started_where_pmix_is_not_used(environment: dict[str, str]) -> None:
    check_library(environment, MPICH)


def test_srun_without_an_mpi_is_told_from_an_mpi_that_srun_does_not_start() -> None:
    with pytest.raises(LaunchError, match="srun started them without an MPI; start with `srun --mpi=pmi2`"):
        check_size(SLURM, 1)
    for launched in ({**SLURM, **PMIX}, HYDRA):
        with pytest.raises(LaunchError, match="belongs to another MPI"):
            check_size(launched, 1)


def test_a_library_that_lacks_another_is_named_rather_than_those_that_are_absent() -> None:
    absent = "/opt/env/lib/libmpi.so: cannot open shared object file: No such file or directory"
    short = "/opt/env/lib/libmpi.so: file too short"
    broken = "libucp.so.0: cannot open shared object file: No such file or directory"
    for reasons, said in (([absent, short, broken, absent], broken), ([absent], "cannot load MPI library")):
        message = str(no_library("\n".join(["cannot load MPI library", *reasons])))
        assert message.startswith(f"mpi4py finds no MPI: {said}; load the module")
    assert "no reason given" in str(no_library(""))
