"""Table 3 of HPC AI500 V3: operations of the layers of ResNet-50, rule `hpcai500`, beside the papers' constant."""

from collections.abc import Sequence

from hpcai.formulas.score import PUBLISHED_OPERATIONS
from hpcai.record.entry import Row
from hpcai.study.figure import Drawing
from hpcai.study.figures import FIGURES
from hpcai.study.operation_counts import OperationCounts, by_layers, columns, compared, counted
from hpcai.study.scaling import GIGA


@FIGURES.register("v3_table3")
class V3Table3(OperationCounts):
    """By kind of layer, v1.5; the paper has formulas, and computes with one constant for forward and backward."""

    title = "Operations of ResNet-50 by kind of layer, rule hpcai500"
    made = "counted here, and published"
    paper = "HPC AI500 V3, Table 3: formulas; 23.0 GFLOP an image"

    def draw(self, tests: Sequence[Row]) -> Drawing:
        ours = {kind: (*pair, sum(pair)) for kind, pair in by_layers(counted("v1.5", "hpcai500")).items()}
        parts = ("forward", "backward", "both")
        published = {"total": (None, None, PUBLISHED_OPERATIONS)}
        rows = tuple(compared(kind, found, published.get(kind, (None,) * 3)) for kind, found in ours.items())
        kinds = [kind for kind in ours if kind != "total"]
        bars = [(part, {kind: ours[kind][place] / GIGA for kind in kinds}) for place, part in enumerate(parts)]
        constant = {**dict.fromkeys(kinds, 0.0), "all layers": PUBLISHED_OPERATIONS / GIGA}
        bars = [(part, {**shares, "all layers": 0.0}) for part, shares in bars]
        return Drawing(columns("layers", parts), rows, bars=(*bars, ("both, published", constant)))
