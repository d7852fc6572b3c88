"""Collectives: what their sizes mean, bandwidths as nccl-tests define them, and the latency and bandwidth that fit."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hpcai.inputfile import Case

Json = dict[str, Any]

ELEMENT = 4  # bytes: all collectives are of fp32 numbers
TYPE = "float"
SCOPES = ("world", "group", "across", "node", "between")
LEAST_ITERATIONS = 2
ONE_RANK = "one rank"
SINGULAR = 1e-9  # sizes so near to each other do not tell latency from bandwidth
TOO_SMALL = "less than one element for each rank"


@dataclass(frozen=True)
class Kind:
    """A collective as nccl-tests describe it: `redop`, `root`, and what is common to all that it tells of them.

    `divided`: its size is that of all ranks' parts, and its count that of one part. `factor`: bytes that the busiest
    link of n ranks carries over the size (nccl-tests, doc/PERFORMANCE.md).
    """

    redop: str
    root: int
    divided: bool
    factor: Callable[[int], float]


COLLECTIVES = {
    "all_reduce": Kind("sum", -1, False, lambda ranks: 2 * (ranks - 1) / ranks),
    "reduce_scatter": Kind("sum", -1, True, lambda ranks: (ranks - 1) / ranks),
    "all_gather": Kind("none", -1, True, lambda ranks: (ranks - 1) / ranks),
    "broadcast": Kind("none", 0, False, lambda ranks: 1.0),
}


def same_as(scope: str) -> str:
    """Why a scope is skipped whose communicators are those of an earlier one."""
    return f"the same ranks as {scope}"


def parts(collective: str, ranks: int) -> int:
    """How many parts of `count` elements the size of a collective is made of."""
    return ranks if COLLECTIVES[collective].divided else 1


def elements(collective: str, nbytes: int, ranks: int) -> int:
    """The count of a collective of at most `nbytes`: elements of a part if its size is divided, else all; may be 0."""
    return nbytes // ELEMENT // parts(collective, ranks)


def size(collective: str, count: int, ranks: int) -> int:
    """Bytes of a collective of that count: received in all by an all-gather, sent in all by a reduce-scatter."""
    return ELEMENT * count * parts(collective, ranks)


def rows(case: Case, raw: Json) -> list[Json]:
    """The measured rows of a case with their bandwidths in bytes/s and verdicts; PASSED means that nothing is wrong."""
    return [_row(case.index, row) for row in raw["rows"]]


def _row(test: int, row: Json) -> Json:
    rate = row["nbytes"] / row["seconds"]
    verdict = "PASSED" if row["wrong"] == 0 else "FAILED"
    busbw = rate * COLLECTIVES[row["collective"]].factor(row["ranks"])
    return {"test": test, **row, "algbw": rate, "busbw": busbw, "verdict": verdict}


def verdict(found: Iterable[Json]) -> str:
    """FAILED if a row is; a case whose scopes were all skipped has none that could be."""
    return "FAILED" if any(row["verdict"] != "PASSED" for row in found) else "PASSED"


def blocks(found: Iterable[Json]) -> dict[tuple[str, str, str], list[Json]]:
    """The rows by collective, scope and by whom, in their order."""
    together: dict[tuple[str, str, str], list[Json]] = {}
    for row in found:
        together.setdefault((row["collective"], row["scope"], row["by"]), []).append(row)
    return together


def average(found: Sequence[Json]) -> float:
    """Mean of the bus bandwidths, each size alike, as nccl-tests print it below a table."""
    return float(sum(row["busbw"] for row in found) / len(found))


def fits(found: Iterable[Json]) -> list[Json]:
    """Of every block the model seconds = alpha + beta * bytes, and the largest relative error of it.

    alpha and beta, in seconds and seconds per byte, make the sum of the squares of the relative errors least, and are
    not negative (Hockney, The communication challenge for MPP, 1994). null where fewer than two sizes PASSED.
    """
    return [
        {"collective": collective, "scope": scope, "by": by, **_fit([row for row in block if row["wrong"] == 0])}
        for (collective, scope, by), block in blocks(found).items()
    ]


def _fit(measured: Sequence[Json]) -> Json:
    if len({row["nbytes"] for row in measured}) < 2:
        return dict.fromkeys(("alpha", "beta", "error"))
    unit = max(row["nbytes"] for row in measured)  # keeps the terms of the equations alike
    constant = [1 / row["seconds"] for row in measured]
    linear = [row["nbytes"] / unit / row["seconds"] for row in measured]
    alpha, beta = _least_squares(constant, linear)
    return {"alpha": alpha, "beta": beta / unit, "error": max(_errors(constant, linear, alpha, beta))}


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
