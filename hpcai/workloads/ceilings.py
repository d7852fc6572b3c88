"""The ceilings of a rank: multiply-adds that stay in registers, and the triad of vectors that no cache holds."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from hpcai.estimate.kernels import Rank, triad_length
from hpcai.kernels.fma_peak import SPEC as FMA_PEAK
from hpcai.kernels.fma_peak import Shape as PeakShape
from hpcai.kernels.spec import CUSTOM, VENDOR, Unavailable, backend
from hpcai.kernels.triad import SPEC as TRIAD
from hpcai.kernels.triad import Shape as TriadShape
from hpcai.kernels.triad import Vectors
from hpcai.workloads.measured import Task, Team

CEILING = "ceiling"
STEPS = 2**20  # of a sum: about 5 ms on a CPU, and exact in fp32
DRAWN = 2**16  # numbers that the vectors repeat


def ceilings(team: Team, rank: Rank) -> Iterator[Task]:
    """FMA peak in fp32 and fp64, which has no vendor, then the triad; the same on every rank. Collective."""
    yield from (_peak(dtype, team) for dtype in ("fp32", "fp64"))
    yield _triad(team, rank)


def _peak(dtype: str, team: Team) -> Task:
    shape = PeakShape(0, 0)  # no backend has told its own
    with suppress(Unavailable):  # which is told where it is prepared
        module = backend("fma_peak", CUSTOM, team.device.type)
        shape = module.shape(dtype, STEPS, str(team.device), team.threads)
    return _task(FMA_PEAK, shape, f"sums{shape.sums} steps{shape.steps}", dtype, lambda: dtype, (CUSTOM,))


def _triad(team: Team, rank: Rank) -> Task:
    length = team.least(triad_length(rank))
    shape = TriadShape(length)
    return _task(TRIAD, shape, f"length{length}", "fp64", lambda: _vectors(length), (CUSTOM, VENDOR))


def _vectors(length: int) -> Vectors:
    generator = np.random.Generator(np.random.Philox(1))
    return Vectors(*(np.resize(generator.standard_normal(DRAWN), length) for _ in range(2)))


def _task(spec: Any, shape: Any, text: str, dtype: str, data: Any, providers: tuple[str, ...]) -> Task:
    names = {"kernel": spec.name, "direction": CEILING, "shape": text, "of": CEILING, "occurrences": 1, "dtype": dtype}
    return Task(names, spec, shape, CEILING, data, providers)


def rate(rows: list[dict[str, Any]], dtype: str) -> float | None:
    """FLOP/s that the slowest rank reached in registers; None where nobody could."""
    found = (row for row in rows if (row["kernel"], row["dtype"]) == ("fma_peak", dtype))
    return next((row["operations"] / row["seconds"] for row in found), None)


