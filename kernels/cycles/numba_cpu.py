"""The chain of dependent operations on CPUs, and cycles per second from the fastest of many bursts."""

from collections.abc import Callable
from secrets import randbits
from typing import Any

from llvmlite import ir
from numba import types

from ..cpu.compiled import compiled
from ..cpu.simd import I64, instruction
from . import BITS, FLIPPED, ITERATIONS, STEP_CYCLES, UNROLLED
from .reference import result

PROVIDER = "custom"
DEVICES = ("cpu",)

LEAST, MOST = 0.01, 0.1  # seconds of all bursts


@instruction
def _chain(typingctx: Any, start: Any, flipped: Any, added: Any, iterations: Any) -> Any:
    """The end of a chain of iterations * UNROLLED steps."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        start, flipped, added, iterations = arguments
        before, body, after = builder.block, *(builder.append_basic_block(name) for name in ("chain", "end"))
        builder.branch(body)
        builder.position_at_end(body)
        x, index = builder.phi(I64), builder.phi(I64)
        end = x
        for _ in range(UNROLLED):
            end = builder.add(builder.xor(end, flipped), added)
        following = builder.add(index, I64(1))
        for phi, first, later in ((x, start, end), (index, I64(0), following)):
            phi.add_incoming(first, before)
            phi.add_incoming(later, body)
        builder.cbranch(builder.icmp_signed("<", following, iterations), body, after)
        builder.position_at_end(after)
        return end

    return types.int64(*[types.int64] * 4), generate


@compiled
def chain(start: Any, flipped: Any, added: Any, iterations: Any) -> Any:
    """x after iterations * UNROLLED steps of x = (x ^ flipped) + added; at least one iteration."""
    return _chain(start, flipped, added, iterations)


def burst(now: Callable[[], float], iterations: int = ITERATIONS) -> float:
    """Cycles per second of one burst from a random number; 0 if its result is wrong: some steps were not computed."""
    start, added = _signed(randbits(BITS)), _signed(randbits(BITS))
    begin = now()
    end = chain(start, -FLIPPED, added, iterations)
    elapsed = now() - begin
    right = end % 2**BITS == result(start, added, iterations * UNROLLED)
    return STEP_CYCLES * iterations * UNROLLED / elapsed if right and elapsed > 0 else 0.0


def _signed(bits: int) -> int:
    """The signed number with these bits."""
    return (bits + FLIPPED) % 2**BITS - FLIPPED


def cycles_per_second(now: Callable[[], float], least: float = LEAST, most: float = MOST) -> float:
    """Cycles per second of the fastest burst; 0 if a result was wrong. `now`: a clock, in seconds.

    Bursts go on until none of the last half of them was faster, since a core that was idle may need milliseconds to
    reach its frequency.
    """
    chain(0, -FLIPPED, 0, 1)  # compiles
    begin = now()
    found: list[float] = []
    while not found or now() - begin < least or (_rises(found) and now() - begin < most):
        found.append(burst(now))
    return max(found) if all(found) else 0.0


def _rises(found: list[float]) -> bool:
    half = len(found) // 2
    return max(found[half:]) > 1.01 * max(found[:half], default=0.0)
