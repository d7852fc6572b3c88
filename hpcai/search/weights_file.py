"""Weights of a trial in the folder of a search: one file each, which other nodes read."""

from hashlib import sha256
from pathlib import Path
from pickle import UnpicklingError
from typing import IO, Any

import torch
from torch import Tensor

from hpcai.errors import DataError
from hpcai.search.paths import weights_name

State = dict[str, Tensor]  # as a torch module gives it: "layer.weight", "layer.bias", "layer.running_mean", ...


class WeightsRemoved(Exception):
    """The weights of a parent are no longer stored."""


def weights_file(folder: Path, trial: int) -> Path:
    """Path of the weights that a trial ended with."""
    return folder / weights_name(trial)


class _Hashed:
    """A file that is written from its beginning to its end, and the SHA-256 of what was written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.total = file, sha256()

    def write(self, block: bytes) -> int:
        self.total.update(block)
        return self._file.write(block)

    def flush(self) -> None:
        self._file.flush()


def save_weights(folder: Path, trial: int, state: State) -> str:
    """Write the weights that a trial ended with; readers see the whole file or none. DataError where that fails.

    Returns the SHA-256 (hexadecimal) of the file as it should be.
    """
    path = weights_file(folder, trial)
    temporary = path.with_name(f".{path.name}")
    try:
        with temporary.open("wb") as file:
            written: Any = _Hashed(file)  # torch asks for no more of a file than write and flush
            torch.save(state, written)
        temporary.replace(path)
    except (OSError, RuntimeError) as error:  # torch raises RuntimeError for a full disk
        raise DataError(f"cannot write {path.absolute()}: {error}") from None
    return str(written.total.hexdigest())


def load_weights(folder: Path, trial: int) -> State:
    """The weights that a trial ended with. WeightsRemoved if they are no longer stored, DataError if unreadable."""
    path = weights_file(folder, trial)
    try:
        state: State = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise WeightsRemoved(f"trial {trial}") from None
    except (OSError, EOFError, RuntimeError, UnpicklingError) as error:
        raise DataError(f"cannot read {path.absolute()}: {error}") from None
    return state


def cast(kind: torch.dtype, state: State) -> State:
    """The state with its floating-point tensors in another type, contiguous."""
    return {
        name: (value.to(kind) if value.is_floating_point() else value).contiguous() for name, value in state.items()
    }


def weights_on_host(module: torch.nn.Module) -> State:
    """A copy of a module's weights and statistics, fp32 on the host."""
    copies = {name: value.detach().to("cpu", copy=True) for name, value in module.state_dict().items()}
    return cast(torch.float32, copies)
