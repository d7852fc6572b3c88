"""Collectives by nccl-tests' definitions: sizes, counts, bus bandwidths; and the linear latency-bandwidth model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

AlgorithmName = Literal["hierarchical", "torus"]  # of an all-reduce in phases, as ALLREDUCE names it
CollectiveName = Literal["all_reduce", "reduce_scatter", "all_gather", "broadcast", AlgorithmName]
ScopeName = Literal["world", "group", "across", "node", "between"]
TrainingBackend = Literal["gloo", "nccl"]
BackendName = Literal["gloo", "nccl", "mpi"]

TYPE: Literal["float"] = "float"  # of all elements, as nccl-tests name fp32
ELEMENT = 4  # bytes
SCOPES: tuple[ScopeName, ...] = get_args(ScopeName)
ONE_RANK = "one rank"  # why a scope is skipped
LEAST_ITERATIONS = 2
SINGULAR = 1e-9  # closer sizes cannot separate latency from bandwidth


@dataclass(frozen=True)
class Kind:
    """A collective as nccl-tests describe it: its reduction, root, size and traffic.

    divided: whether its size is that of the parts of all ranks, and its count that of one part. factor: bytes that the
    busiest link of n ranks carries / size (nccl-tests, doc/PERFORMANCE.md).
    """

    redop: Literal["sum", "none"]
    root: Literal[-1, 0]
    divided: bool
    factor: Callable[[int], float]


COLLECTIVES: dict[CollectiveName, Kind] = {
    "all_reduce": Kind("sum", -1, False, lambda ranks: 2 * (ranks - 1) / ranks),
    "reduce_scatter": Kind("sum", -1, True, lambda ranks: (ranks - 1) / ranks),
    "all_gather": Kind("none", -1, True, lambda ranks: (ranks - 1) / ranks),
    "broadcast": Kind("none", 0, False, lambda ranks: 1.0),
}
ALGORITHMS: tuple[AlgorithmName, ...] = get_args(AlgorithmName)
COLLECTIVES |= dict.fromkeys(ALGORITHMS, COLLECTIVES["all_reduce"])


def measured_in(scope: ScopeName, groups: int) -> tuple[CollectiveName, ...]:
    """The collectives that are measured in a scope: all-reduces in phases only over the ranks of a group.

    One group is all ranks, and they are the scope `world`.
    """
    of_group = scope == ("world" if groups == 1 else "group")
    return tuple(name for name in COLLECTIVES if of_group or name not in ALGORITHMS)


def same_as(scope: ScopeName) -> str:
    """Reason for skipping a scope whose communicators are those of an earlier one."""
    return f"the same ranks as {scope}"


def parts(collective: CollectiveName, ranks: int) -> int:
    """Number of parts of `count` elements in the size of a collective."""
    return ranks if COLLECTIVES[collective].divided else 1


def elements(collective: CollectiveName, nbytes: int, ranks: int) -> int:
    """The count of a collective of at most `nbytes`: elements of a part if its size is divided, else all; may be 0."""
    return nbytes // ELEMENT // parts(collective, ranks)


def size(collective: CollectiveName, count: int, ranks: int) -> int:
    """Bytes of a collective of that count: received in all by an all-gather, sent in all by a reduce-scatter."""
    return ELEMENT * count * parts(collective, ranks)


class LinearModel(NamedTuple):
    """seconds = alpha + beta x bytes: latency in s, time of a byte in s/B, and the largest relative error."""

    alpha: float
    beta: float
    error: float


def linear_model(times: Sequence[tuple[int, float]]) -> LinearModel | None:
    """The model that fits pairs of bytes and seconds; None where there are fewer than two sizes.

    alpha and beta minimise the sum of the squares of the relative errors, and are not negative (Hockney, The
    communication challenge for MPP, 1994).
    """
    if len({nbytes for nbytes, _ in times}) < 2:
        return None
    unit = max(nbytes for nbytes, _ in times)  # keeps both terms of the equations in the same range
    constant = [1 / seconds for _, seconds in times]
    linear = [nbytes / unit / seconds for nbytes, seconds in times]
    alpha, beta = _least_squares(constant, linear)
    return LinearModel(alpha, beta / unit, max(_errors(constant, linear, alpha, beta)))


def _errors(xs: Sequence[float], ys: Sequence[float], alpha: float, beta: float) -> list[float]:
    return [abs(alpha * x + beta * y - 1) for x, y in zip(xs, ys, strict=True)]


def _least_squares(xs: Sequence[float], ys: Sequence[float]) -> tuple[float, float]:
    """Coefficients, not negative, for which alpha * x + beta * y is nearest to 1."""
    xx, yy, xy = _dot(xs, xs), _dot(ys, ys), _dot(xs, ys)
    determinant = xx * yy - xy * xy
    if determinant > SINGULAR * xx * yy:
        free = ((yy * sum(xs) - xy * sum(ys)) / determinant, (xx * sum(ys) - xy * sum(xs)) / determinant)
        if min(free) >= 0:
            return free
    edges = ((sum(xs) / xx, 0.0), (0.0, sum(ys) / yy))
    return min(edges, key=lambda edge: sum(error**2 for error in _errors(xs, ys, *edge)))


def _dot(xs: Sequence[float], ys: Sequence[float]) -> float:
    return sum(x * y for x, y in zip(xs, ys, strict=True))
