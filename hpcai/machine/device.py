"""The compute device of a rank. Only this module asks whether there is a GPU."""

import os
import warnings
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path

import torch
from torch import distributed

from hpcai.errors import LaunchError
from hpcai.kernels.cuda.launch import target_of
from hpcai.kernels.providers import Unavailable
from hpcai.machine import cuda_driver
from hpcai.machine.nvml import driver_version

CPU = "cpu"
MOST_CACHED = 2**28  # bytes, twice the largest cache there is
VISIBLE = "CUDA_VISIBLE_DEVICES"
HIDING = ("-1", "NoDevFiles")  # values that hide all GPUs, as an empty one does
NODES = Path("/dev")  # has a file for each GPU of the node


def visible() -> tuple[str, ...]:
    """Identities of the GPUs that torch can use in this process, in the order of their numbers; none on a CPU.

    Creates no context. LaunchError if CUDA_VISIBLE_DEVICES names GPUs of which none can be used.
    """
    if torch.cuda.device_count() == 0:
        _refuse_misnamed()
        return ()
    # torch counts by NVML, which reports more GPUs than a process can use if some are divided into MIG instances.
    return _of_driver() if torch.version.hip is None else _of_torch()


def _of_driver() -> tuple[str, ...]:
    found = cuda_driver.identities()
    if not found:
        raise LaunchError(
            "there are GPUs, but the CUDA driver does not start, or shows none of them; allowed: one that runs CUDA "
            f"{torch.version.cuda}, with which this torch is built (see nvidia-smi), or {VISIBLE}= to compute on CPUs"
        )
    return found


def _of_torch() -> tuple[str, ...]:
    """GPUs without a CUDA driver: AMD's."""
    properties = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
    return tuple(f"{cuda_driver.WHOLE}{one.uuid}" for one in properties)


def _refuse_misnamed() -> None:
    named = os.environ.get(VISIBLE, "").strip()
    if named and not hidden() and torch.version.cuda and devices_of_node():
        raise LaunchError(
            f"{VISIBLE}={named} names none of the {devices_of_node()} GPUs here that this process may use; allowed: "
            "numbers, or names that nvidia-smi -L lists; with nothing behind the = the run is one on CPUs"
        )


def hidden() -> bool:
    """Whether CUDA_VISIBLE_DEVICES hides all GPUs."""
    named = os.environ.get(VISIBLE)
    return named is not None and named.strip().split(",")[0] in ("", *HIDING)


def devices_of_node() -> int:
    """Number of NVIDIA GPUs of this node, whether or not this process may use them."""
    return len(list(NODES.glob("nvidia[0-9]*")))


def unused() -> bool:
    """Whether this process computes on the CPU although the node has GPUs that are not hidden."""
    return not hidden() and devices_of_node() > 0 and not visible()


def accelerators() -> int:
    """Number of GPUs this rank can see; 0 if only the CPU computes."""
    return len(visible())


def take(number: int) -> torch.device:
    """Make a GPU current and test it; creates its context. LaunchError if it cannot compute."""
    device = torch.device("cuda", number)
    try:
        torch.cuda.set_device(device)
        torch.zeros(1, device=device).add_(1).item()
    except (RuntimeError, torch.cuda.DeferredCudaCallError) as error:
        reason = str(error).strip().split("\n")[0]
        raise LaunchError(f"{visible()[number]} cannot be used: {reason}; allowed: one that is free") from None
    return device


def first() -> torch.device:
    """The first GPU if there is one, else the CPU, for a single process."""
    return take(0) if accelerators() else torch.device("cpu")


def name(device: torch.device) -> str:
    """The product name of a GPU, or `cpu`."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else CPU


def libraries(device: torch.device) -> dict[str, str]:
    """Versions of the driver and of the GPU libraries, `unknown` if not reported; empty on a CPU."""
    if device.type != "cuda":
        return {}
    nccl = ".".join(map(str, torch.cuda.nccl.version())) if distributed.is_nccl_available() else "unknown"
    found = {"CUDA": torch.version.cuda, "cuDNN": torch.backends.cudnn.version(), "CuPy": _cupy_version(), "NCCL": nccl}
    return {"driver": driver_version(), **{name: str(version or "unknown") for name, version in found.items()}}


def _cupy_version() -> str | None:
    """Version of CuPy, whose package name depends on the version of CUDA."""
    names = (one.metadata["Name"] for one in metadata.distributions())
    return next((metadata.version(name) for name in names if str(name).startswith("cupy")), None)


def identity(device: torch.device) -> str:
    """Identity of a GPU, unique even if the launcher shows each rank one GPU as number 0; or `cpu`."""
    return visible()[device.index] if device.type == "cuda" else CPU


def whole(device: torch.device) -> bool:
    """Whether the device is a whole GPU, not a CPU and not a MIG instance."""
    return identity(device).startswith(cuda_driver.WHOLE)


@cache
def loads_kernels(device: torch.device) -> bool:
    """Whether custom kernels can be compiled and loaded for the device: a site may lack CuPy or NVRTC."""
    with suppress(Unavailable):
        return device.type == "cuda" and bool(target_of(device))
    return False


def prepare(device: torch.device, threads: int) -> None:
    """Fix what torch would otherwise decide by itself: its threads, and that fp32 is computed as fp32."""
    torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)
    allow_tf32(False)
    # Otherwise cuBLAS may add up partial sums of 16-bit products in 16 bits.
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cudnn.benchmark = device.type == "cuda"


def allow_tf32(allowed: bool) -> bool:
    """Whether products of fp32 tensors may be computed from inputs rounded to tf32; returns whether they might."""
    # The newer switches (fp32_precision) and these must not be mixed, and torch's own compiler reads these.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about the newer switches
        before: bool = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = allowed
        torch.backends.cudnn.allow_tf32 = allowed
    return before


def free_memory(device: torch.device) -> int:
    """Bytes of a GPU that are free or reserved by this process."""
    free, _ = torch.cuda.mem_get_info(device)
    return int(free + torch.cuda.memory_reserved(device))


def total_memory(device: torch.device) -> int:
    """Bytes of a GPU's memory; 0 on a CPU."""
    return int(torch.cuda.get_device_properties(device).total_memory) if device.type == "cuda" else 0


def cache_bytes(device: torch.device) -> int:
    """Bytes whose writing evicts everything else from a GPU's last-level cache."""
    return min(2 * int(torch.cuda.get_device_properties(device).L2_cache_size), MOST_CACHED)


def capability(device: torch.device) -> tuple[int, int, int]:
    """Compute capability of a GPU, major and minor, and its multiprocessors."""
    found = torch.cuda.get_device_properties(device)
    return found.major, found.minor, found.multi_processor_count


def begin_peak(device: torch.device) -> None:
    """Reset `peak_memory`."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def peak_memory(device: torch.device) -> int:
    """Peak bytes of a GPU that torch reserved for this process; 0 on a CPU."""
    return int(torch.cuda.max_memory_reserved(device)) if device.type == "cuda" else 0
