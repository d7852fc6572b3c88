"""The environment variables by which a user has configured libraries, before the program sets any."""

import re
from collections.abc import Mapping, MutableMapping

from hpcai.machine.affinity import THREAD_VARIABLES
from hpcai.record.library_variables import LONGEST, MOST, NAME, layer_of

LEVEL_OF_TORCH = "TORCH_CPP_LOG_LEVEL"
# No settings of a library: what this program sets itself, what launchers and containers say to their processes or
# choose a device by, and where libraries are and which release they have.
REPLACED = frozenset({*THREAD_VARIABLES, LEVEL_OF_TORCH})
OF_DEVICES = frozenset({"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"})
OF_LAUNCHERS = (
    *("OMPI_MCA_orte_", "OMPI_MCA_ess", "OMPI_MCA_pmix", "OMPI_MCA_initial_wdir", "OMPI_MCA_shmem_RUNTIME_QUERY_hint"),
    *("OMPI_MCA_mpi_oversubscribe", "OMPI_MCA_rmaps_base_oversubscribe", "OMPI_MCA_hwloc_base_binding_policy"),
    *("I_MPI_HYDRA_", "I_MPI_INFO_", "I_MPI_MPIRUN", "MPICH_INTERFACE_HOSTNAME", "CUDA_MPS_", "NVIDIA_REQUIRE_"),
)
OF_INSTALLATIONS = ("_HOME", "_ROOT", "_DIR", "_PATH", "_VERSION")


def is_setting(name: str) -> bool:
    """Whether a variable configures a library."""
    other = name in REPLACED | OF_DEVICES or name.startswith(OF_LAUNCHERS) or name.endswith(OF_INSTALLATIONS)
    return re.match(NAME, name) is not None and not other


def quiet(environment: MutableMapping[str, str]) -> None:
    """Keep warnings of torch's C++ code off stderr, unless the user sets what is printed. Before torch is imported.

    It warns of every connection whose host no name server knows, and prints its stack if a connection is closed.
    """
    environment.setdefault(LEVEL_OF_TORCH, "ERROR")


def settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Settings of libraries by name; of many, those of lower layers, so that none hides one of a lower layer."""
    names = sorted(filter(is_setting, environment), key=lambda name: (layer_of(name), name))
    return {name: _plain(environment[name]) for name in names[:MOST]}


def _plain(value: str) -> str:
    """The first printable ASCII characters; another character is a question mark."""
    return "".join(letter if " " <= letter <= "~" else "?" for letter in value[:LONGEST])
