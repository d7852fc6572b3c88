"""What kernels that go through vectors once are launched with: kernels/cuda/elementwise.cuh."""

from typing import Any

import numpy as np

from .architecture import Target
from .launch import Launch
from .program import Program

THREADS, BLOCKS = 256, 4  # of a block; of a multiprocessor
PIECE = 16  # bytes
TYPES = {"float32": "Fp32", "float64": "Fp64"}


def program(kernel: str, dtype: str) -> Program:
    """A kernel of that name for vectors of a type of NumPy."""
    return Program(f"{kernel}/{kernel}.cu", kernel, (("USE_TYPE", TYPES[dtype]),))


def programs(kernel: str, target: Target) -> tuple[Program, ...]:
    """All that is launched on such a GPU."""
    return tuple(program(kernel, dtype) for dtype in TYPES)


def launch(kernel: str, dtype: str, length: int, processors: int, parameters: Any) -> Launch:
    """The kernel for vectors of so many numbers: as many blocks as run at once, or as have a piece for each thread."""
    pieces = -(-length * np.dtype(dtype).itemsize // PIECE)
    blocks = max(1, min(BLOCKS * processors, -(-pieces // THREADS)))
    return Launch(program(kernel, dtype), (blocks, 1, 1), THREADS, 0, (parameters,))
