"""RMS norm on a GPU: rms_norm.cu, compiled at first use, on the current stream; fp32.

The gradient of the weights is summed in a fixed order, first by blocks: results are reproducible on a device.
"""

from typing import Any

import torch
from torch import Tensor

from ..cuda.architecture import Target
from ..cuda.gpu import gpu
from ..cuda.launch import Launch, Program, enqueue, parameters, structure
from . import Shape

PROVIDER = "custom"
DEVICES = ("cuda",)

FORWARD, GRADIENTS, ADDED = (Program("rms_norm/rms_norm.cu", name) for name in ("forward", "gradients", "add_blocks"))
THREADS, WARPS, WIDTH = 128, 4, 4  # threads and warps of a block; numbers of a vector
COLUMNS = 16  # vectors of a block that adds the sums of others
VECTORS_OF_WARP = 64  # of a row, at most, that one warp has
BLOCKS = 4  # of a multiprocessor
SHARED = 48 * 1024  # bytes of shared memory that a block has on every GPU
CELLS = 2 * 4 * WARPS  # bytes
ADDRESSES = "g", "x", "weight", "other", "beside", "total", "y", "factors", "dx", "partial", "dweight"
PARAMETERS = structure(
    *((name, "u8") for name in ADDRESSES),
    *((name, "i4") for name in ("rows", "features", "warps", "blocks")),
    ("eps", "f4"),
)


def programs(target: Target) -> tuple[Program, ...]:
    """All kernels launched on such a GPU."""
    return FORWARD, GRADIENTS, ADDED


def applies(features: int) -> bool:
    """Whether the features are a whole number of vectors, and their sums fit into shared memory."""
    return features > 0 and features % WIDTH == 0 and _shared(features) <= SHARED


def warps_of(features: int) -> int:
    """Warps of a row: a power of two."""
    return next((warps for warps in (1, 2) if features <= warps * VECTORS_OF_WARP * WIDTH), WARPS)


def blocks_of(shape: Shape, processors: int) -> int:
    """Blocks of the gradients: as many as run at once, at most one for each group of rows."""
    return min(BLOCKS * processors, _groups(shape))


def _groups(shape: Shape) -> int:
    return -(-shape.rows * warps_of(shape.features) // WARPS)


def _shared(features: int) -> int:
    """Bytes of shared memory of the gradients: sums of the features for each row of a block."""
    return CELLS + 4 * features * WARPS // warps_of(features)


def normalising(shape: Shape, eps: float, **addresses: int) -> Launch:
    """The launch that fills y and factors, one a row; addresses of these, x and weight.

    With `other` and `total`: total becomes x + other, and its rows are normalised.
    """
    return _launch(FORWARD, shape, _groups(shape), CELLS, eps=eps, **addresses)


def differentiating(shape: Shape, blocks: int, **addresses: int) -> list[Launch]:
    """The launches that fill dx and dweight; addresses of these, g, x, weight, factors and partial.

    partial: memory of float32[blocks, features]. `beside`, if given, is added to dx.
    """
    parts = -(-shape.features // (WIDTH * COLUMNS))
    return [
        _launch(GRADIENTS, shape, blocks, _shared(shape.features), blocks=blocks, **addresses),
        _launch(ADDED, shape, parts, 4 * WIDTH * THREADS, blocks=blocks, **addresses),
    ]


def _launch(program: Program, shape: Shape, grid: int, shared: int, **fields: Any) -> Launch:
    sizes = {"rows": shape.rows, "features": shape.features, "warps": warps_of(shape.features)}
    return Launch(program, (grid, 1, 1), THREADS, shared, (parameters(PARAMETERS, **sizes, **fields),))


def forward(shape: Shape, eps: float, **tensors: Tensor) -> None:
    """Enqueue `normalising` on torch's current stream; contiguous float32 tensors by the names of their addresses."""
    enqueue(normalising(shape, eps, **_addresses(tensors)), tensors["x"].device)


def backward(shape: Shape, **tensors: Tensor) -> None:
    """Enqueue `differentiating` on torch's current stream; tensors as of `forward`, without partial."""
    device = tensors["x"].device
    blocks = blocks_of(shape, gpu(device).processors)
    partial = torch.empty(blocks, shape.features, device=device)
    for launch in differentiating(shape, blocks, **_addresses({**tensors, "partial": partial})):
        enqueue(launch, device)


def _addresses(tensors: dict[str, Tensor]) -> dict[str, int]:
    """ValueError unless vectors can be read."""
    for name, each in tensors.items():
        if each.dtype != torch.float32 or not each.is_contiguous() or each.data_ptr() % (4 * WIDTH):
            raise ValueError(
                f"RMS norm: {name} is {each.dtype} with strides {each.stride()}; allowed: contiguous "
                f"float32 at multiples of {4 * WIDTH} bytes"
            )
    return {name: each.data_ptr() for name, each in tensors.items()}
