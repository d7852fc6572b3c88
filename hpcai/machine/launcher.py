"""Does MPI see the job that the launcher started?

A launcher that belongs to another MPI starts N copies of a one-rank job without a word; each would print a table of
its own. The environment that launchers leave tells how many ranks they meant to start.
"""

from collections.abc import Mapping

from hpcai.errors import LaunchError

SIZE_VARIABLES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")
PREFIXES = ("PMI_", "PMIX_", "HYDI_", "OMPI_", "PRTE_", "MPI_LOCAL", "SLURM_")
LOCAL_SIZES = ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE")  # ranks that the launcher started on this node
RANK_VARIABLES = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")


def environment_rank(environment: Mapping[str, str]) -> int:
    """This process's rank as the launcher tells it, before MPI is started; 0 without a launcher."""
    ranks = (environment.get(name, "") for name in RANK_VARIABLES)
    return next((int(rank) for rank in ranks if rank.isdecimal()), 0)


def alone(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without what launchers leave in it: for a process that is to be a job of its own."""
    return {name: value for name, value in environment.items() if not name.startswith(PREFIXES)}


def declared_size(environment: Mapping[str, str]) -> int:
    """The number of ranks as the launcher tells it, before MPI is started; 1 without a launcher."""
    return next(iter(declared_sizes(environment).values()), 1)


def declared_sizes(environment: Mapping[str, str]) -> dict[str, int]:
    """Number of ranks by launcher variable; Slurm's counts only where no launcher of an MPI stands between."""
    names = [name for name in SIZE_VARIABLES if name in environment]
    if not names and "SLURM_PROCID" in environment:
        names = ["SLURM_NTASKS"]
    return {name: int(environment[name]) for name in names if environment.get(name, "").isdecimal()}


def check_size(environment: Mapping[str, str], world_size: int) -> None:
    """Raise LaunchError if a launcher started another number of ranks than MPI_COMM_WORLD has."""
    sizes = declared_sizes(environment)
    local = environment.get("MPI_LOCALNRANKS", "")
    if local.isdecimal() and int(local) > world_size:
        sizes["MPI_LOCALNRANKS"] = int(local)
    for name, size in sizes.items():
        if size != world_size:
            raise LaunchError(
                f"the launcher started {size} ranks ({name}={size}) but MPI_COMM_WORLD has {world_size}: "
                "mpirun or srun belongs to another MPI than mpi4py uses; start with the mpirun of the same "
                f"installation, or unset {name} if it is left over from an outer job"
            )
