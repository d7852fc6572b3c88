"""Leave-one-out error: each result is left out, the model fitted to the others and compared with it."""

from collections.abc import Iterator
from dataclasses import dataclass

from hpcai.errors import InputError
from hpcai.projection.fit import fit
from hpcai.projection.measured import Measured, Observation
from hpcai.projection.model import Projected


@dataclass(frozen=True)
class Deviation:
    """Projected - measured, as shares of the measured value; of the efficiency in points."""

    p: int
    q: int
    flops: float
    valid_flops: float
    efficiency: float
    seconds: float


@dataclass(frozen=True)
class Errors:
    """The deviations of what was left out and could be projected; `tried`: of how many."""

    found: tuple[Deviation, ...]
    tried: int

    def worst(self, name: str) -> float | None:
        """The largest deviation of a quantity; None where nothing could be left out."""
        return max((abs(getattr(each, name)) for each in self.found), default=None)


def reference(measured: Measured) -> Observation:
    """The training on the fewest ranks, which efficiencies are relative to."""
    return min(measured.observations, key=lambda each: (each.ranks, each.p))


def leave_one_out(measured: Measured) -> Errors:
    """The error of the model: each result left out with its tables; of a single result, each of its trainings."""
    found = []
    for out, rest in _splits(measured):
        try:
            found.append(_deviation(fit(rest).project(out.p, out.q), out, reference(measured)))
        except InputError:  # what is left says nothing about it
            continue
    return Errors(tuple(found), len(measured.observations))


def _splits(measured: Measured) -> Iterator[tuple[Observation, Measured]]:
    of = measured.observations
    by_run = len({each.run for each in of}) > 1
    for out in of:
        rest = tuple(each for each in of if (each.run != out.run if by_run else each is not out))
        tables = tuple((run, timing) for run, timing in measured.timings if run != out.run or not by_run)
        yield out, Measured(rest, tables)


def _deviation(projected: Projected, measured: Observation, first: Observation) -> Deviation:
    valid = projected.valid_flops or 0.0
    known = measured.flops * (measured.training.valid or 0.0)
    rate, own = first.flops / first.ranks, measured.flops / measured.ranks
    return Deviation(
        p=projected.p,
        q=projected.q,
        flops=projected.flops / measured.flops - 1,
        valid_flops=valid / known - 1 if known else 0.0,
        efficiency=(projected.rate - own) / rate,
        seconds=projected.seconds / measured.seconds - 1,
    )
