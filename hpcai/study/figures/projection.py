"""Parallel efficiency measured, projected, and of HPC AI500 V2 published, beside what its machine file gives."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from hpcai.errors import InputError
from hpcai.projection.errors import leave_one_out, reference
from hpcai.projection.fit import Fit, fit
from hpcai.projection.machine import machine_of
from hpcai.projection.measured import Measured, Observation, families
from hpcai.projection.published import compared
from hpcai.study.figure import Cell, Curve, Drawing, Figure, Published, Read
from hpcai.study.figures import FIGURES

COLUMNS = ("training", "P", "Q", "ranks", "measured", "projected", "leave-one-out error, points")
FURTHER = 8  # times the ranks of the largest training
MACHINE = "v2-v100"
Point = tuple[float, float]


def beside() -> Published:
    """The published efficiencies, and those projected from the machine file alone."""
    found = compared(machine_of(MACHINE))
    digits = tuple((each.projected.ranks, each.published) for each in found if each.published is not None)
    ours = tuple((each.projected.ranks, each.efficiency) for each in found)
    curves = (Curve("published", digits), Curve(f"PROJECTED, machine {MACHINE}", ours))
    return Published("HPC AI500 V2, images, fp32", "V100", "parallel efficiency", curves)


@FIGURES.register("projection")
class Projection(Figure):
    """One model on more ranks, or as many models as measured, to eight times the ranks; band: leave-one-out error."""

    title = "Parallel efficiency measured and projected"
    paper = "docs/PROJECTION.md; HPC AI500 V2"
    x, y = "ranks", "parallel efficiency"
    made = "measured here and projected"
    published = beside()

    def of_files(self, paths: Sequence[Path], read: Read) -> Drawing:
        if not paths:
            raise InputError("this figure is drawn from results, but none is given; allowed: result.json or its folder")
        return drawn(families(paths))


def drawn(trainings: Sequence[Measured]) -> Drawing:
    """Table and curves of families of trainings."""
    rows: list[tuple[Cell, ...]] = []
    curves: list[Curve] = []
    for number, measured in enumerate(trainings, 1):
        label = f"training {number}"
        name = f"{label}: {reference(measured).name}"
        points = [*_points(measured)]
        error = leave_one_out(measured).worst("efficiency")
        rows += [(name, p, q, p * q, known, ours, error and 100 * error) for p, q, known, ours in points]
        curves += _curves(label, points, error or 0.0)
    return Drawing(COLUMNS, tuple(rows), tuple(curves))


def _points(measured: Measured) -> Iterator[tuple[int, int, float | None, float | None]]:
    """P, Q, and the efficiency measured and projected, as far as they are known."""
    used, first = fit(measured), reference(measured)
    rate = first.flops / first.ranks
    known = sorted(measured.observations, key=lambda each: (each.ranks, each.p))
    for each in known:
        yield each.p, each.q, each.flops / each.ranks / rate, _projected(used, each.p, each.q, rate)
    for p, q in _further(known[-1]):
        if (ours := _projected(used, p, q, rate)) is not None:
            yield p, q, None, ours


def _further(largest: Observation) -> Iterator[tuple[int, int]]:
    """Twice the ranks, up to FURTHER times: of a model, or, where a model has one rank, as many more models."""
    times = 2
    while times <= FURTHER:
        yield (largest.p, largest.q * times) if largest.q > 1 else (largest.p * times, 1)
        times *= 2


def _projected(used: Fit, p: int, q: int, rate: float) -> float | None:
    try:
        return used.project(p, q).rate / rate
    except InputError:  # the links are not known, or a step is more than an epoch
        return None


def _curves(label: str, points: Sequence[tuple[int, int, float | None, float | None]], error: float) -> Iterator[Curve]:
    measured = tuple((float(p * q), known) for p, q, known, _ in points if known is not None)
    ours = tuple((float(p * q), found) for p, q, _, found in points if found is not None)
    yield Curve(f"measured, {label}", measured)
    if ours:
        yield Curve(f"PROJECTED, {label}", ours, tuple((found - error, found + error) for _, found in ours))
