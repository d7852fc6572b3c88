"""FMA peak on all multiprocessors of a GPU: by ordinary multiply-adds, or by tensor cores for each type."""

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
from ..providers import Call, Prepared, Unavailable
from ..tensors import prepared
from . import FACTOR, TERM, Numbers, Shape

PROVIDER = "custom"
DEVICES = ("cuda",)

THREADS, SUM_BYTES = (
    256,
    512,
)  # threads of a block, one a multiprocessor; bytes of sums of a thread
UNROLLED, PARTS, FP64_STEPS = (
    4,
    2,
    16,
)  # steps of an iteration: ordinary; fp64 by tensor cores, products and steps
SLOWER = 16  # ordinary multiply-adds run this factor fewer steps
WORDS = 64  # of a row, at most
TILES = (64 + SUM_BYTES // 2) * LINE  # bytes of shared memory, if operands lie there
VARIANTS = {SIMT: "fma", MMA: "mma.sync", WGMMA: "wgmma"}
SUMS = {"Fp64": "float64", "Fp32": "float32", "Int8": "int32"}
PARAMETERS = structure(
    *(("sums", "u8"), ("factor", "f8"), ("term", "f8")),
    *(("rows", ("u4", (2, WORDS))), ("column", ("u4", WORDS)), ("iterations", "i4")),
)


def engines(dtype: str, target: Target) -> tuple[str, ...]:
    """Engines for a type on a GPU. Unavailable if only tensor cores support it, and there are no usable ones."""
    cores = (WGMMA,) if target.has_wgmma else (MMA,) if target.has_tensor_cores else ()
    if dtype == "fp64":
        return (SIMT, MMA) if cores else (SIMT,)
    found = (SIMT,) if dtype == "fp32" else cores
    if not found:
        capability = "{}.{}".format(*target.capability)
        raise Unavailable(
            f"{dtype} is multiplied by tensor cores of compute capability 8.0 and newer; this is {capability}"
        )
    return found


def programs(target: Target) -> tuple[Program, ...]:
    """All kernels launched on such a GPU."""
    return tuple(_program(dtype, engine) for dtype in KINDS for engine in engines(dtype, target))


def _program(dtype: str, engine: str) -> Program:
    return Program("fma_peak/fma_peak.cu", "fma_peak", ((f"USE_{engine}", 1), ("USE_TYPE", KINDS[dtype].name)))


def shape(dtype: str, steps: int, device: str, threads: int) -> Shape:
    """The shape to measure: `steps`, or fewer for ordinary multiply-adds. Unavailable without NVRTC."""
    return filling(dtype, steps, gpu(torch.device(device)).processors)


def filling(dtype: str, steps: int, processors: int) -> Shape:
    """A shape with one block for each multiprocessor."""
    divisor = SLOWER if dtype in ("fp32", "fp64") else 1
    return Shape(processors * THREADS * SUM_BYTES // KINDS[dtype].sum_bytes, steps // divisor)


def iteration_steps(dtype: str, engine: str) -> int:
    """Steps of an iteration of the kernel's loop."""
    if engine == SIMT:
        return UNROLLED
    return PARTS * FP64_STEPS if dtype == "fp64" else LINE // KINDS[dtype].operand_bytes


@cache
def operands(dtype: str) -> tuple[Any, Any]:
    """Two rows of A and one column of B, small integers; products of either row with the column sum to TERM a step.

    They sum to it over an iteration, and in no part of it. Numbers come in pairs whose products sum to 2: for odd m, n
    and a sign s, (m, s) and (m + b, s - n) are multiplied by (n, b) with b = s (2 - m n). So all sums are exact, and
    operands change like random data: tensor cores that repeat one product use less power and run faster than with any
    real data.
    """
    generator = np.random.Generator(np.random.Philox(1))
    pairs = iteration_steps(dtype, MMA) // 2
    m, n = generator.choice([-7, -5, -3, 3, 5, 7], (2, pairs))
    s = generator.choice([-1, 1], pairs)
    b = s * (2 - m * n)
    order = generator.permutation(2 * pairs)
    return np.array([[m, s], [m + b, s - n]]).reshape(2, -1)[:, order], np.concatenate([n, b])[order]


def stored(numbers: Any, dtype: str) -> Any:
    """Small integers in the memory format of a type, as 32-bit words."""
    if dtype == "bf16":
        return (numbers.astype(np.float32, "C").view(np.uint32) >> 16).astype(np.uint16).view(np.uint32)
    return numbers.astype(KINDS[dtype].operand, "C").view(np.uint32)


def launch(dtype: str, engine: str, shape: Shape, sums: int, term: float = TERM) -> Launch:
    """The launch of the kernel that stores its sums at that address; `term`: TERM or -TERM."""
    given = {"sums": sums, "factor": FACTOR, "term": term, "iterations": shape.steps // iteration_steps(dtype, engine)}
    numbers = parameters(PARAMETERS, **given)
    if engine != SIMT:
        rows, column = operands(dtype)
        words = [stored(each, dtype) for each in (rows, column * int(term / TERM))]
        numbers["rows"][0, :, : words[0].shape[1]], numbers["column"][0, : len(words[1])] = words
    blocks = shape.sums * KINDS[dtype].sum_bytes // (THREADS * SUM_BYTES)
    return Launch(_program(dtype, engine), (blocks, 1, 1), THREADS, TILES if engine == WGMMA else 0, (numbers,))


def prepare(shape: Shape, direction: str, data: Numbers, device: str, threads: int) -> list[Prepared]:
    """All variants on a GPU. See `Prepared`."""
    place = torch.device(device)
    name = SUMS[KINDS[data.dtype].sums]
    sums = torch.full((shape.sums,), poison(name), dtype=getattr(torch, name), device=place)

    def variant(engine: str) -> Prepared:
        def bind(data: Numbers) -> Call:
            return ready(launch(data.dtype, engine, shape, sums.data_ptr(), data.term), place)

        return prepared(bind, data, sums, VARIANTS[engine])

    return [variant(engine) for engine in engines(data.dtype, gpu(place).target)]
