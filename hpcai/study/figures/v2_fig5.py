"""Figure 5 of HPC AI500 V2: bytes per second within and between nodes over time, by the counters of the links."""

from collections.abc import Iterator, Sequence

from hpcai.record.entry import Row
from hpcai.record.machine import Telemetry
from hpcai.results.gradient_cost import sent_by_all
from hpcai.study.figure import Cell, Curve, Drawing
from hpcai.study.figures import FIGURES
from hpcai.study.over_time import OverTime, at_times, cells, curve, name_of

MEGA = 1e6
SHOWN = {
    "received_between": "received between nodes",
    "sent_between": "sent between nodes",
    "sent_within": "within nodes, loopback",
    "received_nvlink": "received by NVLink",
    "sent_nvlink": "sent by NVLink",
}
COMPUTED = "computed for gradients"


@FIGURES.register("v2_fig5")
class V2Fig5(OverTime):
    """Of trainings; the mean that follows from the gradients sent is a horizontal line."""

    title = "Bytes per second of a node within and between nodes"
    paper = "HPC AI500 V2, Fig. 5: digits not published"
    x, y = "time, s", "MB/s of a node"

    def draw(self, tests: Sequence[Row]) -> Drawing:
        known = [(test, test.telemetry) for test in tests if test.telemetry is not None]
        kinds = (f"{name}, MB/s, {kind}" for name in SHOWN.values() for kind in ("mean", "maximum"))
        columns = ("test", "nodes", *kinds, f"{COMPUTED}, MB/s, mean")
        scales = dict.fromkeys(SHOWN, MEGA)
        rows = tuple(
            (name_of(test), found.nodes, *cells(found, SHOWN, scales), _computed(test, found)) for test, found in known
        )
        return Drawing(columns, rows, tuple(each for test, found in known for each in _curves(test, found)))


def _computed(test: Row, telemetry: Telemetry) -> Cell:
    """Mean rate at which the ranks of a node sent gradients in the timed region, in MB/s; None where none did."""
    nbytes = sent_by_all(test.raw.sent, test.raw.work.steps, test.q)
    return None if nbytes is None else nbytes / test.seconds / telemetry.nodes / MEGA


def _curves(test: Row, telemetry: Telemetry) -> Iterator[Curve]:
    for name, words in SHOWN.items():
        found = curve(f"{words}, test {name_of(test)}", telemetry, name, MEGA)
        if found:
            yield found
    mean, times = _computed(test, telemetry), at_times(telemetry).seconds
    if isinstance(mean, float) and times:
        yield Curve(f"{COMPUTED}, mean, test {name_of(test)}", ((0.0, mean), (times[-1], mean)))
