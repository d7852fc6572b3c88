"""The real program, whose last rank runs out of memory in its second step, with torch's error for a GPU."""

import sys
from collections.abc import Callable
from typing import Any

import torch
from planting import RANK, WRONG_RANK, WRONG_STEP, replaced

from hpcai.main import main
from hpcai.train.loop import Training


def short(genuine: Callable[..., Any]) -> Any:
    def step(training: Training, *arguments: Any) -> None:
        if RANK == WRONG_RANK and training.state.progress.steps == WRONG_STEP:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB\nand much more")
        genuine(training, *arguments)

    return step


if __name__ == "__main__":
    with replaced(Training, "_step", short):
        sys.exit(main(sys.argv[1:]))
