"""Training states in files, as checkpoints keep them."""

from pathlib import Path

from hpcai import tensor_file, tensor_tree
from hpcai.train.state import TrainingState


def write_state(state: TrainingState, path: Path) -> None:
    """Write a snapshot: a kill at any moment leaves the old file or the new one."""
    tensor_file.write(path, *tensor_tree.separate(state.snapshot()))


def read_state(state: TrainingState, path: Path) -> None:
    """Restore the snapshot in a file. DataError if it is damaged."""
    state.restore(tensor_tree.join(*tensor_file.read(path)))
