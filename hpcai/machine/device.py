"""The compute device of a rank. Only this module asks whether there is a GPU."""

import warnings

import torch

CPU = "cpu"


def accelerators() -> int:
    """Number of GPUs this rank can see; 0 where only the CPU computes."""
    return torch.cuda.device_count()


def own(node_rank: int) -> torch.device:
    """The device of the node's rank `node_rank`, made current before any context exists; GPUs are dealt in turn."""
    count = accelerators()
    if count == 0:
        return torch.device("cpu")
    device = torch.device("cuda", node_rank % count)
    torch.cuda.set_device(device)
    return device


def name(device: torch.device) -> str:
    """The product name of a GPU, or `cpu`."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


def identity(device: torch.device) -> str:
    """What tells a GPU from the node's others, also where the launcher shows each rank one, as number 0; or `cpu`."""
    return str(torch.cuda.get_device_properties(device).uuid) if device.type == "cuda" else CPU


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


def begin_peak(device: torch.device) -> None:
    """Let `peak_memory` begin anew."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def peak_memory(device: torch.device) -> int:
    """Most bytes of a GPU that torch held at once for this process; 0 on a CPU."""
    return int(torch.cuda.max_memory_reserved(device)) if device.type == "cuda" else 0
