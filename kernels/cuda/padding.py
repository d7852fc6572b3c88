"""Channels and filters of groups made whole vectors of 16 bytes, and back, by kernels/conv2d/repack.cu."""

from .launch import Launch, parameters, structure
from .products import KINDS
from .program import Program

THREADS = 256
REPACKED = structure(("source", "u8"), ("target", "u8"), ("lines", "i8"), ("from", "i4"), ("to", "i4"))


def repacked(type: str, source: int, target: int, lines: int, narrow: int, wide: int) -> Launch:
    """Copy lines of `narrow` elements to lines of `wide`: fewer, or with zeros behind them."""
    given = parameters(REPACKED, source=source, target=target, lines=lines, to=wide, **{"from": narrow})
    element = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}[KINDS[type].operand_bytes]
    program = Program("conv2d/repack.cu", "repack", (("USE_ELEMENT", element),))
    return Launch(program, (min(2**16, -(-lines * wide // THREADS)), 1, 1), THREADS, 0, (given,))
