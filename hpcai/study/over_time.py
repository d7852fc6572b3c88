"""Quantities of the nodes of a test's grid over time, from its telemetry."""

from collections.abc import Sequence

from hpcai.machine.node_sensors import NAMES
from hpcai.record.entry import Row
from hpcai.record.machine import OverNodes, Telemetry
from hpcai.study.figure import Cell, Curve, Drawing, FigureOfTests

SCALES = {"memory_bytes": 2.0**30, "gpu_memory_bytes": 2.0**30}
QUANTITIES = {
    "processors": "processors in use",
    "memory_bytes": "memory in use, GiB",
    "gpus": "GPUs in use",
    "gpu_memory_bytes": "memory of a GPU in use, GiB",
}


class OverTime(FigureOfTests):
    """Shares in use over time, of several nodes mean, least and most; the table has means and maxima of all nodes."""

    x, y = "time, s", "share of time in use"
    varied = None

    def takes(self, test: Row) -> bool:
        return super().takes(test) and test.telemetry is not None

    def draw(self, tests: Sequence[Row]) -> Drawing:
        known = [(name_of(test), test.telemetry) for test in tests if test.telemetry is not None]
        kinds = (f"{name}, {kind}" for name in QUANTITIES.values() for kind in ("mean", "maximum"))
        columns = ("test", "nodes", *kinds)
        rows = tuple((name, found.nodes, *cells(found, QUANTITIES, SCALES)) for name, found in known)
        curves = (curve for name, found in known for curve in _curves(name, found))
        return Drawing(columns, rows, tuple(curves))


def name_of(test: Row) -> str:
    """Number and T/V of a test."""
    return f"{test.index}: {test.tv}"


def cells(telemetry: Telemetry, names: Sequence[str] | dict[str, str], scales: dict[str, float]) -> tuple[Cell, ...]:
    """Average and maximum of quantities, divided by their scales."""
    pairs = [(name, getattr(found, name)) for name in names for found in (telemetry.average, telemetry.maximum)]
    return tuple(None if value is None else value / scales.get(name, 1.0) for name, value in pairs)


def at_times(telemetry: Telemetry) -> OverNodes:
    """The nodes over time; of one node, and of an older result, the samples of the first node."""
    if telemetry.over_nodes:
        return telemetry.over_nodes
    values = tuple(tuple(sample[1:]) for sample in telemetry.series)
    seconds = tuple(sample[0] or 0.0 for sample in telemetry.series)
    return OverNodes(seconds=seconds, mean=values, least=values, most=values)


def curve(label: str, telemetry: Telemetry, name: str, scale: float = 1.0) -> Curve | None:
    """A quantity over time, with a band of several nodes; None if it is not reported."""
    found, place = at_times(telemetry), NAMES.index(name)
    known = []
    for at, *rows in zip(found.seconds, found.mean, found.least, found.most, strict=True):
        values = [value / scale for row in rows if (value := row[place]) is not None]
        if len(values) == len(rows):
            known.append((at, *values))
    if not known:
        return None
    band = tuple((least, most) for _, _, least, most in known) if telemetry.over_nodes else ()
    return Curve(label, tuple((at, mean) for at, mean, _, _ in known), band)


def _curves(name: str, telemetry: Telemetry) -> list[Curve]:
    """Processors and GPUs over time; a quantity that is not reported has no curve."""
    nodes = f", {telemetry.nodes} nodes" if telemetry.nodes > 1 else ""
    found = [
        curve(f"{what}, test {name}{nodes}", telemetry, quantity)
        for quantity, what in (("processors", "processors"), ("gpus", "GPUs"))
    ]
    return [each for each in found if each is not None]
