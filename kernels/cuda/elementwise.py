"""Launches of element-wise kernels on vectors: kernels/cuda/elementwise.cuh."""

from typing import Any

import numpy as np

from .architecture import Target
from .launch import Launch
from .program import Program

THREADS, BLOCKS = 256, 4  # threads of a block; blocks of a multiprocessor
PIECE = 16  # bytes
TYPES = {"float32": "Fp32", "float64": "Fp64"}


def program(kernel: str, dtype: str) -> Program:
    """The program of a kernel for vectors of a NumPy type."""
    return Program(f"{kernel}/{kernel}.cu", kernel, (("USE_TYPE", TYPES[dtype]),))


def programs(kernel: str, target: Target) -> tuple[Program, ...]:
    """All kernels launched on such a GPU."""
    return tuple(program(kernel, dtype) for dtype in TYPES)


def launch(kernel: str, dtype: str, length: int, processors: int, parameters: Any) -> Launch:
    """The launch for `length` numbers: as many blocks as run at once, or fewer if some threads would have no piece."""
    pieces = -(-length * np.dtype(dtype).itemsize // PIECE)
    blocks = max(1, min(BLOCKS * processors, -(-pieces // THREADS)))
    return Launch(program(kernel, dtype), (blocks, 1, 1), THREADS, 0, (parameters,))
