"""Utilisation and memory of a node over time, from the telemetry of a test."""

from collections.abc import Sequence

from hpcai.record.entry import Row
from hpcai.record.machine import Telemetry
from hpcai.study.figure import Cell, Curve, Drawing, Figure

QUANTITIES = ("processors in use", "memory in use, GiB", "GPUs in use", "memory of a GPU in use, GiB")
SCALES = (1.0, 2.0**30, 1.0, 2.0**30)


class OverTime(Figure):
    """Shares in use over time; the table has means and maxima of all nodes."""

    x, y = "time, s", "share of time in use"
    varied = None

    def takes(self, test: Row) -> bool:
        return super().takes(test) and test.telemetry is not None

    def draw(self, tests: Sequence[Row]) -> Drawing:
        known = [(f"{test.index}: {test.tv}", test.telemetry) for test in tests if test.telemetry is not None]
        columns = ("test", *(f"{name}, {kind}" for name in QUANTITIES for kind in ("mean", "maximum")))
        rows = tuple((name, *_cells(telemetry)) for name, telemetry in known)
        return Drawing(columns, rows, tuple(curve for name, found in known for curve in _curves(name, found)))


def _cells(telemetry: Telemetry) -> tuple[Cell, ...]:
    both = (telemetry.average, telemetry.maximum)
    names = ("processors", "memory_bytes", "gpus", "gpu_memory_bytes")
    pairs = [[getattr(found, name) for found in both] for name in names]
    return tuple(
        None if value is None else value / scale for pair, scale in zip(pairs, SCALES, strict=True) for value in pair
    )


def _curves(name: str, telemetry: Telemetry) -> list[Curve]:
    """Processors and GPUs over time, of the first node; a quantity that it does not report has no curve."""
    found = []
    for place, what in ((1, "processors"), (3, "GPUs")):
        points = tuple(
            (float(sample[0] or 0.0), float(sample[place] or 0.0))
            for sample in telemetry.series
            if sample[place] is not None
        )
        if points:
            found.append(Curve(f"{what}, test {name}", points))
    return found
