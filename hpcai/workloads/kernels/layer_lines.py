"""Printed roofline of a network's layers: FLOP per byte by direction, and the binding ceiling."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hpcai.formulas import roofline
from hpcai.inputfile import Case
from hpcai.kernels.layers import MeasuredShape
from hpcai.kernels.spec import DIRECTIONS
from hpcai.opcount import traffic
from hpcai.opcount.products import Product, graph_of, of_network
from hpcai.workloads.kernels.record import KernelRow
from hpcai.workloads.kernels.scores import ceilings, fastest, passed

SHAPE, WIDE = 40, 12  # columns
TITLES = tuple(direction.replace("_gradient", "") for direction in DIRECTIONS)
HEAD = "  ".join(
    [
        f"{'layer':<{SHAPE}} {'times':>5}",
        *("".join(f"{title:>{WIDE}}" for title in TITLES) for _ in range(2)),
        "bound by",
    ]
)
ABOVE = f"{'FLOP per byte':>{SHAPE + 8 + 3 * WIDE}}{'share of the roof':>{2 + 3 * WIDE}}"
NONE = "-"


class RankRoofline(NamedTuple):
    """The measured roofline of a rank: FMA peak in FLOP/s and memory bandwidth in bytes/s."""

    peak: float
    memory: float

    @property
    def ridge(self) -> float:
        """Ridge point in FLOP per byte."""
        return self.peak / self.memory

    def of(self, product: Product) -> float:
        """FLOP/s attainable by a product."""
        return min(self.peak, self.memory * _intensity(product))


def layers(case: Case, name: str, rows: Sequence[KernelRow], dtype: str = "fp32") -> Iterator[str]:
    """Lines of one network of a table in one type, from the rows of the table."""
    batch, resolution = case.batch, case.resolution
    found = ceilings(rows, dtype)
    bounds = RankRoofline(found.fma_peak, found.triad) if found.fma_peak and found.triad else None
    inside = "" if dtype == "fp32" else f" in {dtype}"
    yield f"{name}{inside} under the roofline, batch {batch}: {_ridge(bounds)}"
    yield from (ABOVE, HEAD, "-" * len(HEAD))
    rates = _rates([row for row in rows if row.dtype == dtype], name)
    for products in _layers(of_network(name, batch, resolution, dtype)):
        shares = {
            direction: _share(rates.get(_key(product)), product, bounds) for direction, product in products.items()
        }
        yield _line(products, shares, bounds)
    yield _moved(traffic.step(graph_of(name, resolution), batch, dtype))


def _ridge(bounds: RankRoofline | None) -> str:
    if bounds is None:
        return "FMA peak or triad not measured"
    rates = f"FMA peak {bounds.peak / 1e9:.2f} GFLOP/s / triad {bounds.memory / 1e9:.2f} GB/s"
    return f"ridge at {bounds.ridge:.2f} FLOP per byte, {rates}"


def _layers(products: Sequence[Product]) -> list[dict[str, Product]]:
    """The directions of each distinct layer."""
    found: dict[tuple[str, MeasuredShape], dict[str, Product]] = {}
    for product in products:
        found.setdefault((product.kernel, product.layer), {})[product.direction] = product
    return list(found.values())


def _intensity(product: Product) -> float:
    return product.operations / product.nbytes


def _rates(rows: Sequence[KernelRow], name: str) -> dict[tuple[str, ...], float]:
    """FLOP/s of each product by the fastest provider."""
    own = [row for row in passed(rows) if row.of == name]
    return {(row.kernel, row.direction, row.shape): 1e9 * row.gflops for row in fastest(own)}


def _key(product: Product) -> tuple[str, ...]:
    return product.kernel, product.direction, product.shape


def _share(rate: float | None, product: Product, bounds: RankRoofline | None) -> float | None:
    return roofline.share(rate, bounds.of(product)) if rate is not None and bounds else None


def _line(products: dict[str, Product], shares: dict[str, float | None], bounds: RankRoofline | None) -> str:
    first = products[DIRECTIONS[0]]
    intensities = [_intensity(products[each]) if each in products else None for each in DIRECTIONS]
    numbers = "".join(map(_number, intensities)) + "  " + "".join(_number(shares.get(each)) for each in DIRECTIONS)
    return f"{first.shape:<{SHAPE}} {first.occurrences:>5}  {numbers}  {_bound(first, bounds)}"


def _bound(product: Product, bounds: RankRoofline | None) -> str:
    """All directions have the same FLOP per byte: each reads two of input, weights and output, and writes one."""
    if bounds is None:
        return NONE
    return roofline.COMPUTE if _intensity(product) >= bounds.ridge else roofline.MEMORY


def _number(value: float | None) -> str:
    return f"{NONE:>{WIDE}}" if value is None else f"{value:{WIDE}.3f}"


def _moved(step: traffic.Traffic) -> str:
    """The contributions to the bytes of a step, largest first."""
    kinds = Counter({"update": step.update})
    for layer in step.layers:
        kinds[layer.kind] += sum(layer.nbytes)
    shares = ", ".join(f"{kind} {100 * moved / step.nbytes:.1f} %" for kind, moved in kinds.most_common())
    return f"a step moves {step.nbytes / 1e9:.3f} GB at {step.intensity:.2f} FLOP per byte: {shares}"
