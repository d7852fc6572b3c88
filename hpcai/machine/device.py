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
HIDING = ("-1", "NoDevFiles")  # with this in it no GPU is to be seen, as with nothing
NODES = Path("/dev")  # where the kernel has a file for each GPU of the node


def visible() -> tuple[str, ...]:
    """Identities of the GPUs that torch can compute on in this process, by their numbers; none on a CPU.

    Makes no context. LaunchError where CUDA_VISIBLE_DEVICES names GPUs of which none can be used.
    """
    if torch.cuda.device_count() == 0:
        _refuse_misnamed()
        return ()
    # torch counts by NVML, which knows more GPUs than a process can use where some are divided into instances.
    return _of_driver() if torch.version.hip is None else _of_torch()


def _of_driver() -> tuple[str, ...]:
    found = cuda_driver.identities()
    if not found:
        raise LaunchError(
            "there are GPUs, but the CUDA driver does not start, or shows none of them; allowed: one that runs CUDA "
            f"{torch.version.cuda}, with which this torch is built (nvidia-smi tells), or {VISIBLE}= to compute on CPUs"
        )
    return found


def _of_torch() -> tuple[str, ...]:
    """Where there is no driver of CUDA: AMD's GPUs."""
    properties = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
    return tuple(f"{cuda_driver.WHOLE}{one.uuid}" for one in properties)


def _refuse_misnamed() -> None:
    named = os.environ.get(VISIBLE, "").strip()
    if named and not hidden() and torch.version.cuda and devices_of_node():
        raise LaunchError(
            f"{VISIBLE}={named} names none of the {devices_of_node()} GPUs here that this process may use; allowed: "
            "numbers, or names that nvidia-smi -L tells; with nothing behind the = the run is one on CPUs"
        )


def hidden() -> bool:
    """Whether CUDA_VISIBLE_DEVICES is there to hide all GPUs."""
    named = os.environ.get(VISIBLE)
    return named is not None and named.strip().split(",")[0] in ("", *HIDING)


def devices_of_node() -> int:
    """NVIDIA's GPUs of this node, as the kernel counts them, whoever may use them."""
    return len(list(NODES.glob("nvidia[0-9]*")))


def unused() -> bool:
    """Whether this process computes on the CPU of a node with GPUs, though nobody has hidden them."""
    return not hidden() and devices_of_node() > 0 and not visible()


def accelerators() -> int:
    """Number of GPUs this rank can see; 0 where only the CPU computes."""
    return len(visible())


def take(number: int) -> torch.device:
    """A GPU, made current and tried; its context is made here. LaunchError where it cannot compute."""
    device = torch.device("cuda", number)
    try:
        torch.cuda.set_device(device)
        torch.zeros(1, device=device).add_(1).item()
    except (RuntimeError, torch.cuda.DeferredCudaCallError) as error:
        reason = str(error).strip().split("\n")[0]
        raise LaunchError(f"{visible()[number]} cannot be used: {reason}; allowed: one that is free") from None
    return device


def first() -> torch.device:
    """The first GPU, where there is one, or the CPU: for one process alone."""
    return take(0) if accelerators() else torch.device("cpu")


def name(device: torch.device) -> str:
    """The product name of a GPU, or `cpu`."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else CPU


def libraries(device: torch.device) -> dict[str, str]:
    """Versions of the driver and of what computes on a GPU, `unknown` where one is not told; nothing of a CPU."""
    if device.type != "cuda":
        return {}
    nccl = ".".join(map(str, torch.cuda.nccl.version())) if distributed.is_nccl_available() else "unknown"
    found = {"CUDA": torch.version.cuda, "cuDNN": torch.backends.cudnn.version(), "CuPy": _cupy_version(), "NCCL": nccl}
    return {"driver": driver_version(), **{name: str(version or "unknown") for name, version in found.items()}}


def _cupy_version() -> str | None:
    """A site may have it by another name, for another CUDA."""
    names = (one.metadata["Name"] for one in metadata.distributions())
    return next((metadata.version(name) for name in names if str(name).startswith("cupy")), None)


def identity(device: torch.device) -> str:
    """What tells a GPU from all others, also where the launcher shows each rank one, as number 0; or `cpu`."""
    return visible()[device.index] if device.type == "cuda" else CPU


def whole(device: torch.device) -> bool:
    """Whether it is a GPU, and not a CPU or an instance (MIG), which is a part of one."""
    return identity(device).startswith(cuda_driver.WHOLE)


@cache
def loads_kernels(device: torch.device) -> bool:
    """Whether it is a GPU for which our own kernels can be compiled and loaded: a site may lack CuPy or NVRTC."""
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
        warnings.simplefilter("ignore", UserWarning)  # that there are newer ones
        before: bool = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = allowed
        torch.backends.cudnn.allow_tf32 = allowed
    return before


def free_memory(device: torch.device) -> int:
    """Bytes of a GPU that nobody uses, or that this process keeps in reserve."""
    free, _ = torch.cuda.mem_get_info(device)
    return int(free + torch.cuda.memory_reserved(device))


def cache_bytes(device: torch.device) -> int:
    """Bytes that push all else out of a GPU's last cache when they are written."""
    return min(2 * int(torch.cuda.get_device_properties(device).L2_cache_size), MOST_CACHED)


def begin_peak(device: torch.device) -> None:
    """Let `peak_memory` begin anew."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def peak_memory(device: torch.device) -> int:
    """Most bytes of a GPU that torch held at once for this process; 0 on a CPU."""
    return int(torch.cuda.max_memory_reserved(device)) if device.type == "cuda" else 0
