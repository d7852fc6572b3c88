"""Tensor maps of the tensor memory accelerator (TMA), for GPUs of capability 9.0 and newer.

The limits are those of cuTensorMapEncodeTiled in the CUDA driver API, 6.31 (Tensor Map Object Management).
"""

import ctypes
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..providers import Unavailable

ALIGNMENT = 64  # bytes, of a tensor map
MAP = np.dtype((np.uint8, 128))
LIBRARY = "libcuda.so.1"
MOST_DIMENSIONS, MOST_IN_BOX = 5, 256


class Element(NamedTuple):
    """CUtensorMapDataType of a type, and its bytes."""

    number: int
    nbytes: int


ELEMENTS = {
    "uint8": Element(0, 1),
    "int8": Element(0, 1),  # TMA only moves bytes
    "int32": Element(3, 4),
    "float16": Element(6, 2),
    "float32": Element(7, 4),
    "float64": Element(8, 8),
    "bfloat16": Element(9, 2),
    "tfloat32": Element(11, 4),  # fp32 in memory, rounded during the load
}
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
PROMOTIONS = {0: 0, 64: 1, 128: 2, 256: 3}


@dataclass(frozen=True)
class Tiled:
    """An array in GPU memory and the box that one TMA load copies; outside of the array, zeros are read.

    Dimensions and box are in elements, innermost first. Strides are in bytes, for all dimensions but the innermost,
    which is contiguous. `swizzle`: span in bytes within which 16-byte pieces are permuted in shared memory (0: none).
    `promotion`: bytes that L2 fetches at a time. ValueError for what TMA does not support.
    """

    address: int
    dtype: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = 0
    promotion: int = 128

    def __post_init__(self) -> None:
        if wrong := _unknown(self) or _wrong_array(self) or _wrong_box(self):
            raise ValueError(f"{wrong}: {self}")

    @property
    def inner(self) -> int:
        """Bytes of the box along the innermost dimension."""
        return self.box[0] * ELEMENTS[self.dtype].nbytes

    @property
    def nbytes(self) -> int:
        """Bytes of a box in shared memory, as the barrier counts them, including elements outside of the array."""
        return int(np.prod(self.box)) * ELEMENTS[self.dtype].nbytes


def _unknown(map: Tiled) -> str:
    if map.dtype not in ELEMENTS:
        return f"no element type of tensor maps; there are {', '.join(ELEMENTS)}"
    if map.swizzle not in SWIZZLES:
        return f"swizzle is one of {[*SWIZZLES]} bytes"
    if map.promotion not in PROMOTIONS:
        return f"promotion is one of {[*PROMOTIONS]} bytes"
    rank = len(map.dims)
    if not 1 <= rank <= MOST_DIMENSIONS or len(map.strides) != rank - 1 or len(map.box) != rank:
        return f"1 to {MOST_DIMENSIONS} dimensions, as many of the box, one stride less"
    return ""


def _wrong_array(map: Tiled) -> str:
    if map.address <= 0 or map.address % 16:
        return "the address is a multiple of 16"
    if not all(1 <= size <= 2**32 for size in map.dims):
        return "dimensions are 1 to 2^32"
    if not all(0 < stride < 2**40 and stride % 16 == 0 for stride in map.strides):
        return "strides are multiples of 16 below 2^40"
    return ""


def _wrong_box(map: Tiled) -> str:
    if not all(1 <= size <= MOST_IN_BOX for size in map.box):
        return f"dimensions of the box are 1 to {MOST_IN_BOX}"
    if map.inner % 16:
        return f"{map.inner} bytes along the innermost dimension of the box; multiples of 16 are allowed"
    if map.swizzle and map.inner > map.swizzle:
        return f"{map.inner} bytes along the innermost dimension of the box, more than are swizzled"
    return ""


def encoded(map: Tiled) -> NDArray[np.uint8]:
    """The encoded tensor map, 128 bytes at a multiple of 64, made by the driver.

    OSError with the driver's error and the map, Unavailable without a driver that supports tensor maps.
    """
    memory = np.zeros(MAP.itemsize + ALIGNMENT, np.uint8)
    first = -memory.ctypes.data % ALIGNMENT
    found = memory[first : first + MAP.itemsize]
    failed = _library().cuTensorMapEncodeTiled(ctypes.c_void_p(found.ctypes.data), *_arguments(map))
    if failed:
        raise OSError(f"cuTensorMapEncodeTiled: {_error(failed)}: {map}")
    return found


def _arguments(map: Tiled) -> tuple[Any, ...]:
    rank, small, large = len(map.dims), ctypes.c_uint32, ctypes.c_uint64
    steps, interleave, fill = (small * rank)(*[1] * rank), 0, 0  # element strides 1, no interleave, zero fill
    return (
        *(ELEMENTS[map.dtype].number, small(rank), ctypes.c_void_p(map.address)),
        *((large * rank)(*map.dims), (large * max(rank - 1, 1))(*map.strides), (small * rank)(*map.box), steps),
        *(interleave, SWIZZLES[map.swizzle], PROMOTIONS[map.promotion], fill),
    )


@cache
def _library() -> Any:
    try:
        library = ctypes.CDLL(LIBRARY)
        library.cuTensorMapEncodeTiled  # noqa: B018 - a driver older than CUDA 12 lacks it
    except (OSError, AttributeError) as error:
        raise Unavailable(f"tensor maps: {error}") from None
    return library


def _error(code: int) -> str:
    name = ctypes.c_char_p()
    unknown = _library().cuGetErrorName(ctypes.c_int(code), ctypes.byref(name))
    return f"CUresult {code}" if unknown or name.value is None else f"{name.value.decode()} ({code})"
