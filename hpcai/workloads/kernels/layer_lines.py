"""The layers of a network under the measured roofline: FLOP per byte in each direction, and what bounds it."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from hpcai.formulas import roofline
from hpcai.kernels.spec import DIRECTIONS
from hpcai.opcount import traffic
from hpcai.opcount.products import Product, graph_of, of_network
from hpcai.result.kernels import ceilings, fastest

Json = dict[str, Any]

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


def layers(name: str, settings: Json, rows: Sequence[Json], dtype: str = "fp32") -> Iterator[str]:
    """Lines on one network of a table of kernels, whose settings and rows are given, in a type."""
    found = ceilings(rows, dtype)
    peak, memory = found["fma_peak"], found["triad"]
    ridge = peak / memory if peak and memory else None
    inside = "" if dtype == "fp32" else f" in {dtype}"
    yield f"{name}{inside} under the roofline, batch {settings['BATCH']}: {_ridge(peak, memory, ridge)}"
    yield from (ABOVE, HEAD, "-" * len(HEAD))
    rates = _rates([row for row in rows if row["dtype"] == dtype], name)
    for products in _layers(of_network(name, settings["BATCH"], settings["RESOLUTION"], dtype)):
        roofs = {product: min(peak, memory * _intensity(product)) if ridge else None for product in products.values()}
        shares = {way: _share(rates.get(_key(product)), roofs[product]) for way, product in products.items()}
        yield _line(products, shares, ridge)
    yield _moved(traffic.step(graph_of(name, settings["RESOLUTION"]), settings["BATCH"], dtype))


def _ridge(peak: float | None, memory: float | None, ridge: float | None) -> str:
    if not ridge or not peak or not memory:
        return "FMA peak or triad not measured"
    return f"ridge at {ridge:.2f} FLOP per byte, FMA peak {peak / 1e9:.2f} GFLOP/s / triad {memory / 1e9:.2f} GB/s"


def _layers(products: Sequence[Product]) -> list[dict[str, Product]]:
    """The directions of each distinct layer."""
    found: dict[tuple[Any, ...], dict[str, Product]] = {}
    for product in products:
        found.setdefault((product.kernel, product.layer), {})[product.direction] = product
    return list(found.values())


def _intensity(product: Product) -> float:
    return product.operations / product.nbytes


def _rates(rows: Sequence[Json], name: str) -> dict[tuple[str, ...], float]:
    """FLOP/s of the faster provider of each product."""
    mine = [row for row in rows if row["of"] == name and row["verdict"] == "PASSED"]
    return {(row["kernel"], row["direction"], row["shape"]): 1e9 * row["gflops"] for row in fastest(mine)}


def _key(product: Product) -> tuple[str, ...]:
    return product.kernel, product.direction, product.shape


def _share(rate: float | None, roof: float | None) -> float | None:
    return None if rate is None else roofline.share(rate, roof)


def _line(products: dict[str, Product], shares: dict[str, float | None], ridge: float | None) -> str:
    first = products[DIRECTIONS[0]]
    intensities = [_intensity(products[way]) if way in products else None for way in DIRECTIONS]
    numbers = "".join(map(_number, intensities)) + "  " + "".join(_number(shares.get(way)) for way in DIRECTIONS)
    return f"{first.shape:<{SHAPE}} {first.occurrences:>5}  {numbers}  {_bound(first, ridge)}"


def _bound(product: Product, ridge: float | None) -> str:
    """All directions have the same FLOP per byte: each reads two of input, weights and output, and writes one."""
    if ridge is None:
        return NONE
    return roofline.COMPUTE if _intensity(product) >= ridge else roofline.MEMORY


def _number(value: float | None) -> str:
    return f"{NONE:>{WIDE}}" if value is None else f"{value:{WIDE}.3f}"


def _moved(step: traffic.Traffic) -> str:
    """What moves the bytes of a step, the most first."""
    kinds = Counter({"update": step.update})
    for layer in step.layers:
        kinds[layer.kind] += sum(layer.nbytes)
    shares = ", ".join(f"{kind} {100 * moved / step.nbytes:.1f} %" for kind, moved in kinds.most_common())
    return f"a step moves {step.nbytes / 1e9:.3f} GB at {step.intensity:.2f} FLOP per byte: {shares}"
