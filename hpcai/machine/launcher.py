"""Environment variables of launchers: rank, number of ranks, and the check that MPI agrees with the launcher.

The launcher of another MPI silently starts N jobs of one rank, each of which would print a table. The environment
variables of the launcher say how many ranks it meant to start.
"""

import re
from collections.abc import Mapping

from hpcai.errors import LaunchError

SIZE_VARIABLES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")
PREFIXES = ("PMI_", "PMIX_", "HYDI_", "OMPI_", "PRTE_", "MPI_LOCAL", "SLURM_")
SLURM_SIZE = "SLURM_NTASKS"
LOCAL_SIZES = ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE")  # ranks that the launcher started on this node
LOCAL_RANKS = ("MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID")
RANK_VARIABLES = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "PMIX_RANK")
BY_PMIX = ("PMIX_NAMESPACE", "PMIX_RANK")  # how Open MPI's launcher tells its ranks who they are, and srun --mpi=pmix
# What the loader says of a file of which it need not be said that it is no MPI; wheels have such in place of links.
ABSENT = re.compile(r"(^|/)libmpi[^/]*: (cannot open shared object file|file too short|invalid ELF header)")
OTHER_MPI = (
    "mpirun or srun belongs to another MPI than mpi4py uses; start with the mpirun of the same installation, "
    "or unset {name} if it is left over from an outer job"
)
BARE_SRUN = (
    "srun started them without an MPI; start with `srun --mpi=pmi2` for MPICH, `srun --mpi=pmix` for Open MPI "
    "(`srun --mpi=list` names the types that there are), or with mpirun in a job of sbatch"
)


def environment_rank(environment: Mapping[str, str]) -> int:
    """Rank of this process according to the launcher, before MPI starts; 0 without a launcher."""
    ranks = (environment.get(name, "") for name in RANK_VARIABLES)
    return next((int(rank) for rank in ranks if rank.isdecimal()), 0)


def local_rank(environment: Mapping[str, str]) -> int:
    """Rank of this process among those of its node according to the launcher; 0 without a launcher."""
    ranks = (environment.get(name, "") for name in LOCAL_RANKS)
    return next((int(rank) for rank in ranks if rank.isdecimal()), 0)


def local_size(environment: Mapping[str, str]) -> int:
    """Number of ranks on this node according to the launcher; 1 without a launcher."""
    sizes = (environment.get(name, "") for name in LOCAL_SIZES)
    return next((int(size) for size in sizes if size.isdecimal()), 1)


def alone(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without the variables of launchers, for a process that is not a rank of this job."""
    return {name: value for name, value in environment.items() if not name.startswith(PREFIXES)}


def outlasts(environment: Mapping[str, str]) -> bool:
    """Whether a job goes on if one of its ranks is lost: that of Open MPI under `mpirun --with-ft mpi`."""
    asked = environment.get("OMPI_MCA_mpi_ft_enable", "").lower() in ("1", "true", "yes")
    return asked and "OMPI_COMM_WORLD_SIZE" in environment


def declared_size(environment: Mapping[str, str]) -> int:
    """Number of ranks according to the launcher, before MPI starts; 1 without a launcher."""
    return next(iter(declared_sizes(environment).values()), 1)


def declared_sizes(environment: Mapping[str, str]) -> dict[str, int]:
    """Number of ranks by variable; Slurm's counts only if no launcher of an MPI was used inside the job."""
    names = [name for name in SIZE_VARIABLES if name in environment]
    if not names and "SLURM_PROCID" in environment:
        names = [SLURM_SIZE]
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
                f"{_remedy(name, environment)}"
            )


def _remedy(name: str, environment: Mapping[str, str]) -> str:
    untold = name == SLURM_SIZE and not any(each in environment for each in BY_PMIX)
    return BARE_SRUN if untold else OTHER_MPI.format(name=name)


def check_library(environment: Mapping[str, str], library: str) -> None:
    """Raise LaunchError if MPI would abort the process when it starts: MPICH, told by PMIx who it is.

    library: what MPI_Get_library_version says, of which MPICH's has the options it was configured with.
    """
    found = next((name for name in BY_PMIX if name in environment), "")
    if found and library.startswith("MPICH") and "pmix" not in library.lower():
        name, size = next(iter(declared_sizes(environment).items()), (found, environment[found]))
        what = f"{size} ranks ({name}={size})" if name != found else f"this rank ({name}={size})"
        product = " ".join(library.split("\n")[0].replace("Version:", "").split())
        remedy = OTHER_MPI.format(name=found)
        raise LaunchError(f"the launcher started {what} by PMIx, but mpi4py uses {product}: {remedy}")


def no_library(reasons: str) -> LaunchError:
    """The error if mpi4py can load no MPI. reasons: what it says, of its wheel a line for each file that was tried."""
    tried = reasons.strip().splitlines()
    broken = [line for line in tried[1:] if not ABSENT.search(line)]  # there, but a library that it needs is not
    return LaunchError(
        f"mpi4py finds no MPI: {(broken or tried or ['no reason given'])[0]}; "
        "load the module of the MPI that was there at `make install`, or name its library by MPI4PY_LIBMPI"
    )
