"""Table III of AIPerf: operations of ResNet-50 by kind of layer, rule `aiperf`."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from hpcai.record.entry import Row
from hpcai.study.figure import Drawing
from hpcai.study.figures import FIGURES
from hpcai.study.operation_counts import OperationCounts, Pair, by_layers, counted, of_layers


@FIGURES.register("aiperf_table3")
class AIPerfTable3(OperationCounts):
    """By kind of layer; digits that are not published are n/a."""

    title = "Operations of ResNet-50 by kind of layer, rule aiperf"
    made = "counted here, and published"
    paper = "AIPerf, Table III"
    digits: ClassVar[Mapping[str, Pair]] = {
        "convolution": (7.71e9, 1.52e10),
        "dense": (4.10e6, 1.23e7),
        "batch norm": (7.41e7, 1.91e3),
        "global pool": (1.00e5, None),
        "softmax": (2.10e4, None),
        "total": (7.81e9, 1.52e10),
    }
    whole: ClassVar[float] = 2.31e10  # forward and backward

    def draw(self, tests: Sequence[Row]) -> Drawing:
        return of_layers(by_layers(counted("v1", "aiperf")), self.digits)
