"""Variables that launchers leave in the environment, compared with the number of ranks of MPI."""

import pytest

from hpcai.errors import LaunchError
from hpcai.machine.launcher import check_size, declared_size, declared_sizes, environment_rank

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
