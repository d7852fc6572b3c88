"""Environment variables that configure libraries, by their prefixes and layer (docs/RULES.md)."""

from typing import Annotated

from msgspec import Meta

from hpcai.record.record import END

PREFIXES = {
    3: ("FI_", "GLOO_", "I_MPI_", "MPICH_", "MPIR_CVAR_", "NCCL_", "OMPI_MCA_", "UCX_"),
    4: ("CUBLAS_", "CUDA_", "CUDNN_", "DNNL_", "MKL_", "NVIDIA_", "ONEDNN_", "OPENBLAS_"),
    5: ("PYTORCH_", "TORCHDYNAMO_", "TORCHINDUCTOR_", "TORCH_"),
    6: ("GOMP_", "KMP_", "NUMBA_", "OMP_"),
}
MOST, LONGEST = 100, 200  # variables, and characters of a value, that are recorded
_ALL = "|".join(prefix for prefixes in PREFIXES.values() for prefix in prefixes)

NAME = f"^({_ALL})[A-Za-z0-9_]{{1,{LONGEST}}}{END}"

VariableName = Annotated[str, Meta(pattern=NAME)]
VariableValue = Annotated[str, Meta(pattern=f"^[ -~]{{0,{LONGEST}}}{END}")]


def layer_of(name: str) -> int | None:
    """The layer that a variable configures; None for other variables."""
    return next((layer for layer, prefixes in PREFIXES.items() if name.startswith(prefixes)), None)
