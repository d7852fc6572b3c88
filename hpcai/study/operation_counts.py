"""Operations of a training image by layers, counted from the network, beside published digits; no result is needed."""

from collections.abc import Mapping, Sequence

from hpcai.networks import build
from hpcai.opcount import Count, count
from hpcai.study.figure import Cell, Drawing, FigureOfTests
from hpcai.study.scaling import GIGA

DIRECTIONS = ("forward", "backward")
Pair = tuple[float | None, float | None]  # forward and backward
UNPUBLISHED: Pair = (None, None)


class OperationCounts(FigureOfTests):
    """A table of operation counts of ResNet-50 at 224 x 224 pixels and 1000 classes."""

    y = "10^9 operations of an image"
    made = "counted here"
    of_results = False


def counted(variant: str, rule: str) -> Count:
    """The count of an image by a rule."""
    return count(build("resnet50", (224, 224), 3, 1000, variant), rule)


def by_layers(found: Count) -> dict[str, tuple[int, int]]:
    """Operations forward and backward by kind of layer, in the order of the network, then of all."""
    kinds = dict.fromkeys(layer.kind for layer in found.layers)
    own = {kind: [layer for layer in found.layers if layer.kind == kind] for kind in kinds}
    sums = {kind: (sum(e.forward for e in layers), sum(e.backward for e in layers)) for kind, layers in own.items()}
    return {**{kind: pair for kind, pair in sums.items() if any(pair)}, "total": (found.forward, found.backward)}


def compared(name: str, ours: Sequence[float | None], published: Sequence[float | None]) -> tuple[Cell, ...]:
    """A row: the name, then ours, the published digits and the relative difference of each direction."""
    cells: list[Cell] = [name]
    for own, other in zip(ours, published, strict=True):
        cells += [own, other, None if own is None or other is None else own / other - 1]
    return tuple(cells)


def columns(first: str, parts: Sequence[str] = DIRECTIONS) -> tuple[str, ...]:
    """The columns of such rows."""
    kinds = ("ours, {}", "published, {}", "relative difference, {}")
    return (first, *(kind.format(part) for part in parts for kind in kinds))


def of_layers(ours: Mapping[str, tuple[int, int]], published: Mapping[str, Pair]) -> Drawing:
    """Table by kind of layer; bars of the kinds, ours and published, where all digits are known."""
    rows = tuple(compared(kind, pair, published.get(kind, UNPUBLISHED)) for kind, pair in ours.items())
    parts = [kind for kind in ours if kind != "total"]
    bars = []
    for place, direction in enumerate(DIRECTIONS):
        bars.append((f"{direction}, ours", {kind: ours[kind][place] / GIGA for kind in parts}))
        if published:
            digits = {kind: (published.get(kind, UNPUBLISHED)[place] or 0.0) / GIGA for kind in parts}
            bars.append((f"{direction}, published", digits))
    return Drawing(columns("layers"), rows, bars=tuple(bars))
