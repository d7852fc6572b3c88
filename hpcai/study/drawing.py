"""Draws a figure by matplotlib, as PNG and SVG: ours on the left, published digits on the right."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.study.figure import Curve, Drawing, Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = "os^Dvp*XP<>"
MARKED = 20  # points of a curve that have a marker
COLUMNS = 2  # of a legend
MAGNITUDES = 100  # between the highest values of two curves, for a logarithmic axis
FEW = 8  # positions, each of which has a tick


def save(folder: Path, name: str, figure: Figure, drawing: Drawing) -> list[Path]:
    """The files NAME.png and NAME.svg. ImportError without matplotlib."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    beside = figure.published
    canvas = Canvas(figsize=(17 if beside else 8, 6), layout="constrained")
    FigureCanvasAgg(canvas)
    panels = canvas.subplots(1, 2 if beside else 1, squeeze=False)[0]
    _ours(panels[0], figure, drawing)
    if beside:
        draw_curves(panels[1], beside.curves)
        panels[1].set(xlabel=beside.x, ylabel=beside.y, title=f"published: {beside.source}")
    canvas.suptitle(f"{figure.title}\n({figure.paper})", fontsize="medium")
    paths = [folder / f"{name}.{kind}" for kind in ("png", "svg")]
    for path in paths:
        canvas.savefig(path, dpi=120)
    return paths


def _ours(axes: "Axes", figure: Figure, drawing: Drawing) -> None:
    if _has_one_position(drawing.curves):
        _side_by_side(axes, drawing.curves)
        [position] = drawing.curves[0].points
        axes.set(xlabel=figure.y, title=f"{figure.made}, {figure.x}: {position[0]:g}")
        return
    if drawing.bars:
        _stacked(axes, drawing.bars)
    else:
        draw_curves(axes, drawing.curves)
    axes.set(xlabel=figure.x, ylabel=figure.y, title=figure.made)


def _has_one_position(curves: tuple[Curve, ...]) -> bool:
    """Whether several curves have one point each, all at the same place: their markers would hide one another."""
    each = all(len(curve.points) == 1 for curve in curves)
    return len(curves) > 1 and each and len({curve.points[0][0] for curve in curves}) == 1


def _side_by_side(axes: "Axes", curves: tuple[Curve, ...]) -> None:
    """A bar with its value for each curve, the first one at the top."""
    bars = axes.barh([curve.label for curve in curves], [curve.points[0][1] for curve in curves], height=0.6)
    axes.bar_label(bars, fmt="%.4g", padding=3, fontsize="small")
    axes.invert_yaxis()
    axes.margins(x=0.12)


def draw_curves(axes: "Axes", curves: tuple[Curve, ...]) -> None:
    """Lines with markers, from 0 on, or on a logarithmic axis where one would lie at 0 beside the highest."""
    for number, curve in enumerate(curves):
        xs, ys = zip(*curve.points, strict=True) if curve.points else ((), ())
        every = max(1, len(xs) // MARKED)
        axes.plot(xs, ys, marker=MARKERS[number % len(MARKERS)], markersize=6, markevery=every, label=curve.label)
        if curve.band:
            lowest, highest = zip(*curve.band, strict=True)
            axes.fill_between(xs, lowest, highest, alpha=0.2, linewidth=0)
    _set_heights(axes, [found for curve in curves if (found := _highest(curve)) > 0], _lowest(curves))
    positions = sorted({x for curve in curves for x, _ in curve.points})
    if len(positions) <= FEW:
        axes.set_xticks(positions)
    axes.grid(alpha=0.3)
    _legend(axes, len(curves))


def _set_heights(axes: "Axes", heights: list[float], lowest: float) -> None:
    """Limits of y for curves with these highest values above 0, of which none is below `lowest`."""
    top = max(heights, default=1.0)
    if lowest > 0 and top > MAGNITUDES * min(heights):
        axes.set_yscale("log")
        axes.set_ylim(lowest / 2, 2 * top)
    else:
        axes.set_ylim(0, 1.1 * top)


def _lowest(curves: tuple[Curve, ...]) -> float:
    ys = [y for curve in curves for _, y in curve.points]
    return min((*ys, *(low for curve in curves for low, _ in curve.band)), default=0.0)


def _highest(curve: Curve) -> float:
    return max((*(y for _, y in curve.points), *(high for _, high in curve.band)), default=0.0)


def _stacked(axes: "Axes", bars: tuple[tuple[str, dict[str, float]], ...]) -> None:
    names = [name for name, _ in bars]
    for part, bottoms in _parts(bars):
        axes.bar(names, [shares[part] for _, shares in bars], bottom=bottoms, width=0.5, label=part)
    axes.set_xlim(-1, len(bars))
    axes.set_ylim(0, 1.05 * max(sum(shares.values()) for _, shares in bars))
    _legend(axes, len(bars[0][1]))


def _legend(axes: "Axes", labels: int) -> None:
    """Below the axes, where it hides nothing."""
    axes.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=min(labels, COLUMNS))


def _parts(bars: tuple[tuple[str, dict[str, float]], ...]) -> Iterator[tuple[str, list[float]]]:
    """Each part with the heights at which it begins."""
    bottoms = [0.0] * len(bars)
    for part in bars[0][1]:
        yield part, list(bottoms)
        bottoms = [bottom + shares[part] for bottom, (_, shares) in zip(bottoms, bars, strict=True)]
