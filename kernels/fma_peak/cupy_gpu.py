"""The repeated multiply-add on all multiprocessors of a GPU: ordinary ones, and those of its tensor cores by type."""

from functools import cache
from typing import Any

import numpy as np
import torch

from ..arrays import poison
from ..cuda.architecture import Target
from ..cuda.gpu import gpu
from ..cuda.launch import Launch, parameters, ready, structure
from ..cuda.program import Program
from ..cuda.tiling import KINDS, LINE, MMA, SIMT, WGMMA
from ..providers import Prepared, Unavailable
from ..tensors import prepared
from . import FACTOR, TERM, Shape

PROVIDER = "custom"
DEVICES = ("cuda",)

THREADS, SUM_BYTES = 256, 512  # of a block, which has a multiprocessor; of a thread: half of its registers
UNROLLED, PARTS, FP64_STEPS = 4, 2, 16  # steps of a turn of ordinary ones; of fp64 by tensor cores, products and steps
SLOWER = 16  # ordinary multiply-adds get so many steps less
WORDS = 64  # of a row, at most
TILES = (64 + SUM_BYTES // 2) * LINE  # bytes of shared memory, where operands lie there
WAYS = {SIMT: "fma", MMA: "mma.sync", WGMMA: "wgmma"}
SUMS = {"Fp64": "float64", "Fp32": "float32", "Int8": "int32"}
PARAMETERS = structure(
    *(("sums", "u8"), ("factor", "f8"), ("term", "f8")),
    *(("rows", ("u4", (2, WORDS))), ("column", ("u4", WORDS)), ("turns", "i4")),
)


def engines(dtype: str, target: Target) -> tuple[str, ...]:
    """How a GPU multiplies and adds in a type. Unavailable if only tensor cores do, and it has none that we can use."""
    cores = (WGMMA,) if target.has_wgmma else (MMA,) if target.has_tensor_cores else ()
    if dtype == "fp64":
        return (SIMT, MMA) if cores else (SIMT,)
    found = (SIMT,) if dtype == "fp32" else cores
    if not found:
        own = "{}.{}".format(*target.capability)
        raise Unavailable(f"{dtype} is multiplied by tensor cores of compute capability 8.0 and newer; this is {own}")
    return found


def programs(target: Target) -> tuple[Program, ...]:
    """All that is launched on such a GPU."""
    return tuple(_program(dtype, engine) for dtype in KINDS for engine in engines(dtype, target))


def _program(dtype: str, engine: str) -> Program:
    return Program("fma_peak/fma_peak.cu", "fma_peak", ((f"USE_{engine}", 1), ("USE_TYPE", KINDS[dtype].name)))


def shape(dtype: str, steps: int, device: str, threads: int) -> Shape:
    """What is measured on a GPU: `steps`, or a part of them where they are ordinary ones. Unavailable without NVRTC."""
    return filling(dtype, steps, gpu(torch.device(device)).processors)


def filling(dtype: str, steps: int, processors: int) -> Shape:
    """A block for each multiprocessor."""
    less = SLOWER if dtype in ("fp32", "fp64") else 1
    return Shape(processors * THREADS * SUM_BYTES // KINDS[dtype].sum_bytes, steps // less)


def turn(dtype: str, engine: str) -> int:
    """Steps of a turn of the kernel's loop."""
    if engine == SIMT:
        return UNROLLED
    return PARTS * FP64_STEPS if dtype == "fp64" else LINE // KINDS[dtype].operand_bytes


@cache
def operands(dtype: str) -> tuple[Any, Any]:
    """Two rows of A and a column of B, whole numbers of few bits; products of either row with the column sum to TERM a
    step in a turn, and in no part of it.

    They come in pairs whose products sum to 2: of any odd m, n and a sign s, (m, s) and (m + b, s - n) meet (n, b) with
    b = s (2 - m n). So all sums are exact, and numbers change as random ones do: tensor cores that multiply the same
    again and again take less power and run faster than with any real data.
    """
    generator = np.random.Generator(np.random.Philox(1))
    pairs = turn(dtype, MMA) // 2
    m, n = generator.choice([-7, -5, -3, 3, 5, 7], (2, pairs))
    s = generator.choice([-1, 1], pairs)
    b = s * (2 - m * n)
    mixed = generator.permutation(2 * pairs)
    return np.array([[m, s], [m + b, s - n]]).reshape(2, -1)[:, mixed], np.concatenate([n, b])[mixed]


def stored(numbers: Any, dtype: str) -> Any:
    """Whole numbers of few bits as a type has them in memory, four bytes each."""
    if dtype == "bf16":
        return (numbers.astype(np.float32, "C").view(np.uint32) >> 16).astype(np.uint16).view(np.uint32)
    return numbers.astype(KINDS[dtype].operand, "C").view(np.uint32)


def launch(dtype: str, engine: str, shape: Shape, sums: int) -> Launch:
    """The kernel, whose sums go to that address."""
    given = {"sums": sums, "factor": FACTOR, "term": TERM, "turns": shape.steps // turn(dtype, engine)}
    numbers = parameters(PARAMETERS, **given)
    if engine != SIMT:
        rows, column = (stored(each, dtype) for each in operands(dtype))
        numbers["rows"][0, :, : rows.shape[1]], numbers["column"][0, : len(column)] = rows, column
    blocks = shape.sums * KINDS[dtype].sum_bytes // (THREADS * SUM_BYTES)
    return Launch(_program(dtype, engine), (blocks, 1, 1), THREADS, TILES if engine == WGMMA else 0, (numbers,))


def prepare(shape: Shape, direction: str, data: str, device: str, threads: int) -> list[Prepared]:
    """The ways that a GPU has; `data` is the name of the type. See `Prepared`."""
    place = torch.device(device)
    name = SUMS[KINDS[data].sums]
    sums = torch.full((shape.sums,), poison(name), dtype=getattr(torch, name), device=place)

    def way(engine: str) -> Prepared:
        call = ready(launch(data, engine, shape, sums.data_ptr()), place)
        return prepared(call, sums, WAYS[engine])

    return [way(engine) for engine in engines(data, gpu(place).target)]
