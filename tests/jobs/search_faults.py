"""Faults in the weights that trials of a search begin with."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from planting import Fault, replaced

from hpcai.search import child_builder
from hpcai.search.weights_file import save_weights


def parent_weights_of_another_search() -> Fault:
    """Trials inherit weights of a trial with the parent's number, and of its network, that another search left."""

    def make(genuine: Callable[..., Any]) -> Any:
        def load_weights(folder: Path, trial: int) -> Any:
            state, _ = genuine(folder, trial)
            with TemporaryDirectory() as other:
                save_weights(Path(other), trial, {name: (value * 1.01).to(value) for name, value in state.items()})
                return genuine(Path(other), trial)

        return load_weights

    return replaced(child_builder, "load_weights", make)
