"""The compute device of a rank. Only this module asks whether there is a GPU."""

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
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = device.type == "cuda"
