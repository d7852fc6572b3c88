"""Weights of a trial in the folder of a search: one file each, which other nodes read."""

from pathlib import Path

import torch
from torch import Tensor

from hpcai import tensor_file
from hpcai.search.paths import weights_name

State = dict[str, Tensor]  # as a torch module gives it: "layer.weight", "layer.bias", "layer.running_mean", ...


class WeightsRemoved(Exception):
    """The weights of a parent are no longer stored."""


def weights_file(folder: Path, trial: int) -> Path:
    """Path of the weights that a trial ended with."""
    return folder / weights_name(trial)


def save_weights(folder: Path, trial: int, state: State) -> str:
    """Write the weights that a trial ended with; readers see the whole file or none. DataError where that fails.

    Returns the SHA-256 (hexadecimal) of the file as it should be.
    """
    return tensor_file.write(weights_file(folder, trial), state)


def load_weights(folder: Path, trial: int) -> tuple[State, str]:
    """The weights that a trial ended with, and the SHA-256 (hexadecimal) of the file that was read.

    WeightsRemoved if they are no longer stored, DataError if unreadable.
    """
    try:
        (state, _), digest = tensor_file.read_with_digest(weights_file(folder, trial))
        return state, digest
    except FileNotFoundError:
        raise WeightsRemoved(f"trial {trial}") from None


def cast(kind: torch.dtype, state: State) -> State:
    """The state with its floating-point tensors in another type, contiguous."""
    return {
        name: (value.to(kind) if value.is_floating_point() else value).contiguous() for name, value in state.items()
    }


def weights_on_host(module: torch.nn.Module) -> State:
    """A copy of a module's weights and statistics, fp32 on the host."""
    copies = {name: value.detach().to("cpu", copy=True) for name, value in module.state_dict().items()}
    return cast(torch.float32, copies)
