"""Causal attention on a GPU: cuda/attention.cu, compiled at first use, on the current stream.

Each sum belongs to one block and has one order: no sum is atomic, so results are reproducible.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..cuda.architecture import Target
from ..cuda.launch import Launch, enqueue, keeping, parameters, ready, structure, target_of
from ..cuda.program import Program
from ..cuda.tiling import KINDS
from ..providers import Call, Prepared, Unavailable
from ..spec import DTYPES, FORWARD, Tensors, dtype_of
from ..tensors import converted, prepared, result_of
from . import LOG2_E, MULTIPLE, Shape, check

PROVIDER = "custom"
DEVICES = ("cuda",)

TYPES = ("fp32", "fp16", "bf16")
OF_TORCH: dict[torch.dtype, str] = {getattr(torch, KINDS[name].operand): name for name in TYPES}
PASS, MEANS, OF_KEYS, OF_QUERIES, ROTATE = "forward", "means", "of_keys", "of_queries", "rotate"
TILES = {PASS: 4, MEANS: 0, OF_KEYS: 5, OF_QUERIES: 5}  # of a block, in shared memory
SIDE, THREADS, UNIT = 64, 128, 16  # places of a tile; threads of a block; bytes of which rows begin at multiples
STATISTICS = 8 * SIDE  # bytes of shared memory
HEADS = structure(("first", "u8"), ("sample", "i8"), ("head", "i8"), ("place", "i8"))
PARAMETERS = structure(
    *((name, HEADS) for name in ("queries", "keys", "values", "out", "gradient")),
    *((name, HEADS) for name in ("of_queries", "of_keys", "of_values")),
    *(("log_sums", "u8"), ("means", "u8"), ("heads", "i4"), ("places", "i4"), ("chunks", "i4")),
    *(("scale", "f4"), ("scale_of_2", "f4")),
)
ROTATED = structure(
    *(("from", (HEADS, 2)), ("to", (HEADS, 2)), ("cosines", "u8"), ("sines", "u8")),
    *(("heads", "i4"), ("places", "i4"), ("half", "i4"), ("direction", "f4")),
)
assert MULTIPLE == SIDE, "a chunk of features is as wide as a tile"


class Heads(NamedTuple):
    """Rows of an array [batch, heads, places, features]: address, and numbers between samples, heads and places.

    The numbers of a row are contiguous; rows begin at multiples of UNIT bytes.
    """

    address: int
    sample: int
    head: int
    place: int


def program(name: str, dtype: str = "fp32") -> Program:
    """A kernel for a type."""
    file = "rotation" if name == ROTATE else "attention"
    return Program(f"attention/cuda/{file}.cu", name, (("USE_TYPE", KINDS[dtype].name),))


def programs(target: Target) -> tuple[Program, ...]:
    """All kernels launched on such a GPU. Unavailable if a block has too little shared memory there."""
    if target.capability < (8, 0):
        raise Unavailable("attention needs a GPU of compute capability 8.0 or newer")
    return tuple(program(name, dtype) for dtype in TYPES for name in (ROTATE, *TILES))


def heads_of(tensor: Tensor) -> Heads:
    """Address and strides of a tensor [batch, heads, places, features]. ValueError if its rows do not fit."""
    *apart, one = tensor.stride()
    between = any(nbytes % UNIT for nbytes in (tensor.data_ptr(), *(tensor.itemsize * each for each in apart)))
    if one != 1 or between:
        raise ValueError(
            f"attention of strides {tensor.stride()}; allowed: contiguous rows at multiples of {UNIT} bytes"
        )
    return Heads(tensor.data_ptr(), *apart)


def pass_forward(
    shape: Shape, given: tuple[Heads, ...], out: Heads, log_sums: int, dtype: str = "fp32"
) -> Launch:
    """The launch that fills the output, and float32[batch, heads, places] with the base-2 logarithms of the rows' sums.

    given: queries, keys and values.
    """
    arrays = dict(zip(("queries", "keys", "values", "out"), (*given, out), strict=True))
    return _launch(PASS, dtype, shape, log_sums=log_sums, **arrays)


def gradients(
    shape: Shape, given: tuple[Heads, ...], made: tuple[Heads, ...], log_sums: int, means: int, dtype: str = "fp32"
) -> list[Launch]:
    """The launches that fill the gradients `made` of queries, keys and values.

    given: these, the output and its gradient; means: memory of as many numbers as log_sums.
    """
    names = ("queries", "keys", "values", "out", "gradient", "of_queries", "of_keys", "of_values")
    fields = {**dict(zip(names, (*given, *made), strict=True)), "log_sums": log_sums, "means": means}
    return [_launch(name, dtype, shape, **fields) for name in (MEANS, OF_KEYS, OF_QUERIES)]


def _launch(name: str, dtype: str, shape: Shape, **fields: Any) -> Launch:
    sizes = {"heads": shape.heads, "places": shape.places, "chunks": shape.features // SIDE}
    scales = {"scale": shape.scale, "scale_of_2": shape.scale * LOG2_E}
    grid = (shape.batch * shape.heads, -(-shape.places // SIDE), sizes["chunks"] if TILES[name] else 1)
    shared = TILES[name] * KINDS[dtype].operand_bytes * SIDE**2 + STATISTICS
    made = parameters(PARAMETERS, **sizes, **scales, **fields)
    return Launch(program(name, dtype), grid, THREADS, shared, (made,))


def rotation(
    shape: Shape,
    source: tuple[Heads, ...],
    target: tuple[Heads, ...],
    angles: tuple[int, int],
    backwards: bool = False,
    dtype: str = "fp32",
) -> Launch:
    """The launch that fills the targets, of queries and keys, with the rotated rows of the sources, which they may be.

    angles: addresses of cosines and sines float32[places, features / 2].
    """
    cosines, sines = angles
    sizes = {"heads": shape.heads, "places": shape.places, "half": shape.features // 2}
    arrays = {"from": [*source], "to": [*target], "cosines": cosines, "sines": sines}
    made = parameters(ROTATED, direction=-1 if backwards else 1, **sizes, **arrays)
    return Launch(program(ROTATE, dtype), (shape.batch * shape.heads, -(-shape.places // SIDE), 2), THREADS, 0, (made,))


def forward(shape: Shape, given: tuple[Tensor, ...], out: Tensor, log_sums: Tensor) -> None:
    """Enqueue the forward pass on torch's current stream; arguments, of one type of TYPES, as of `pass_forward`."""
    _ready(shape, out.device)
    made = pass_forward(shape, tuple(map(heads_of, given)), heads_of(out), log_sums.data_ptr(), OF_TORCH[out.dtype])
    enqueue(made, out.device)


def backward(shape: Shape, given: tuple[Tensor, ...], made: tuple[Tensor, ...], log_sums: Tensor) -> None:
    """Enqueue the gradients on torch's current stream; arguments, of one type of TYPES, as of `gradients`."""
    _ready(shape, log_sums.device)
    means = torch.empty_like(log_sums)
    kind, addresses = OF_TORCH[made[0].dtype], (log_sums.data_ptr(), means.data_ptr())
    for launch in gradients(shape, tuple(map(heads_of, given)), tuple(map(heads_of, made)), *addresses, kind):
        enqueue(launch, log_sums.device)


def rotate(
    shape: Shape,
    source: tuple[Tensor, ...],
    target: tuple[Tensor, ...],
    angles: tuple[Tensor, Tensor],
    backwards: bool = False,
) -> None:
    """Enqueue the rotation of queries and keys on torch's current stream; arguments as of `rotation`."""
    _ready(shape, angles[0].device)
    addresses = angles[0].data_ptr(), angles[1].data_ptr()
    arrays = tuple(map(heads_of, source)), tuple(map(heads_of, target))
    made = rotation(shape, *arrays, addresses, backwards, OF_TORCH[target[0].dtype])
    enqueue(made, angles[0].device)


def _ready(shape: Shape, device: torch.device) -> None:
    """ValueError unless there is a kernel for the shape, Unavailable unless there is one for the GPU."""
    check(shape)
    programs(target_of(device))


def prepare(shape: Shape, direction: str, data: Tensors, device: str, threads: int) -> list[Prepared]:
    """The only variant. See `Prepared`. A backward pass is given the output of a forward pass, which is not timed."""
    dtype = dtype_of(data)
    if dtype not in TYPES:
        raise Unavailable(f"attention in {dtype} on GPUs; there are {', '.join(TYPES)}")
    place, kinds = torch.device(device), DTYPES[dtype]
    _ready(shape, place)
    result, convert = result_of(shape.result(direction), kinds, device), converted(kinds, device)

    def bind(data: Tensors) -> Call:
        x, out = convert(data.x), result if direction == FORWARD else result_of(shape.y, kinds, device)
        log_sums, means = (torch.empty(shape.y[:3], device=place) for _ in range(2))
        operands = tuple(map(heads_of, x))
        first = ready(pass_forward(shape, operands, heads_of(out), log_sums.data_ptr(), dtype), place)
        if direction == FORWARD:
            return keeping(first, x, out, log_sums)
        first()
        g = convert(data.g)
        given, made = (*operands, heads_of(out), heads_of(g)), tuple(map(heads_of, result))
        launches = gradients(shape, given, made, log_sums.data_ptr(), means.data_ptr(), dtype)
        steps = [ready(each, place) for each in launches]
        return keeping(partial(_one_by_one, steps), x, out, g, log_sums, means)

    return [prepared(bind, data, result)]


def _one_by_one(steps: Sequence[Callable[[], None]]) -> None:
    for step in steps:
        step()
