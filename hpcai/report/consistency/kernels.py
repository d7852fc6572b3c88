"""What the raw measurements of `[kernels]` owe the input: the products it asks for, each counted from its shape."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Any

from hpcai.inputfile import Case
from hpcai.kernels import copy, fma_peak, triad
from hpcai.kernels.providers import VENDOR
from hpcai.kernels.spec import DTYPES
from hpcai.kernels.verify import EVERY_ELEMENT, LARGEST_OPERATIONS, RANDOM_VECTORS
from hpcai.opcount.ceilings import COPY, FMA_PEAK, TRIAD, ceilings
from hpcai.opcount.products import PRODUCT, SQUARE, Product, asked, automatic, squares, types_of_squares
from hpcai.result.kernels import CEILING, COMPARED, providers_of

Json = dict[str, Any]

SMALLEST_AUTOMATIC = 512
SHAPE_BY_SHAPE = ("gemm", "int8", VENDOR)
OF_VECTORS = (TRIAD, COPY)
NEVER_MISSING = {
    *(("gemm", "fp32", VENDOR), ("gemm", "fp64", VENDOR)),
    *(("conv2d", "fp32", VENDOR), (COPY, "fp64", VENDOR)),
}
FIELDS = ("kernel", "direction", "shape", "of", "occurrences", "dtype", "operations", "nbytes")


def claims(case: Case, raw: Json, environment: Json) -> Iterator[str]:
    """The claims that the raw measurements of a table break; none if all hold."""
    rows = raw["rows"]
    accelerated = environment["accelerators"] > 0
    wanted, limits = _wanted(case, rows), _every_ceiling(accelerated)
    found = {
        "ranks, of the environment": raw["ranks"] == environment["ranks"],
        "threads >= 1, the same in every row": raw["threads"] >= 1
        and all(row["threads"] == raw["threads"] for row in rows),
        "seconds > 0": all(isfinite(row["seconds"]) and row["seconds"] > 0 for row in rows),
        "residuals >= 0, of whole numbers whole": all(_residual_of(row) for row in rows),
        "no row twice": max(Counter((*_fields(row), row["provider"]) for row in rows).values(), default=0) <= 1,
        "missing: each provider once, of products that it may lack": _missing(raw, wanted, limits),
        "checked: as the operations of a product ask for": all(row["checked"] == _checked(row) for row in rows),
        "the products that SHAPES, PRECISION, BATCH and RESOLUTION ask for": _products(raw, wanted, accelerated),
        "the ceilings, counted from their shapes": _ceilings(raw, limits),
        "squares of auto: 512 and its doubles": _doubled(case, rows),
    }
    yield from (f"kernels: {claim}" for claim, holds in found.items() if not holds)


def _wanted(case: Case, rows: Sequence[Json]) -> list[tuple[Any, ...]]:
    """The fields of every product asked for; squares of `auto` as far as rows tell their sizes."""
    products = asked(case.settings)
    if automatic(case.settings):
        more = squares(_sizes(rows), types_of_squares(case.settings))
        products += [each for each in more if each not in products]
    return [_declared(product) for product in products]


def _declared(product: Product) -> tuple[Any, ...]:
    return tuple(getattr(product, field) for field in FIELDS)


def _fields(row: Json) -> tuple[Any, ...]:
    return tuple(row[field] for field in FIELDS)


def _sizes(rows: Sequence[Json]) -> list[int]:
    """Sides of the square products that were measured, in their order."""
    found = (re.fullmatch(r"m(\d{1,6}) n\1 k\1", row["shape"]) for row in rows if row["of"] == SQUARE)
    return list(dict.fromkeys(int(size[1]) for size in found if size))


def _doubled(case: Case, rows: Sequence[Json]) -> bool:
    """Whether the squares that only `auto` asks for, and those of it the input names, follow one another."""
    if not automatic(case.settings):
        return True
    named = {product.layer.batch for product in asked(case.settings) if product.direction == PRODUCT}
    own = [size for size in _sizes(rows) if size not in named]
    doubles = {SMALLEST_AUTOMATIC * 2**step for step in range(20)}
    smaller = (size // 2 for size in own if size > SMALLEST_AUTOMATIC)
    return set(own) <= doubles and all(size in own or size in named for size in smaller)


def _providers(raw: Json, kernel: str) -> tuple[str, ...]:
    """Those that a kernel must have, and others that the table names for it."""
    return providers_of(each for each in (*raw["rows"], *raw["missing"]) if each["kernel"] == kernel)


def _left_out(raw: Json) -> set[tuple[str, str, str]]:
    return {(each["kernel"], each["dtype"], each["provider"]) for each in raw["missing"]}


def _products(raw: Json, wanted: Sequence[tuple[Any, ...]], accelerated: bool) -> bool:
    """Whether every product has a row of each provider that is not missing, and no other has.

    One at least; but types that nobody multiplies on a CPU have none there.
    """
    measured = {(*_fields(row), row["provider"]) for row in raw["rows"] if row["of"] != CEILING}
    absent = _left_out(raw)
    every = {(*product, provider) for product in wanted for provider in _providers(raw, product[0])}
    lacking = every - measured
    excused = all((row[0], row[5], row[-1]) in absent for row in lacking)
    by_somebody = {row[:-1] for row in measured}
    possible = {product for product in wanted if accelerated or not DTYPES[product[5]].on_gpus}
    return measured <= every and excused and by_somebody == possible


def _missing(raw: Json, wanted: Sequence[tuple[Any, ...]], ceilings: set[tuple[str, str, str]]) -> bool:
    """Whether each entry names a provider once, that lacks all rows of that kernel and type, as torch never does.

    But torch multiplies bytes of some shapes and not of others, and so may providers that a site adds.
    """
    entries = [(each["kernel"], each["dtype"], each["provider"]) for each in raw["missing"]]
    wanted_of = Counter(
        (product[0], product[5], provider) for product in wanted for provider in _providers(raw, product[0])
    )
    wanted_of.update(ceilings)
    measured = Counter((row["kernel"], row["dtype"], row["provider"]) for row in raw["rows"])
    by_shape = {entry for entry in entries if entry == SHAPE_BY_SHAPE or entry[2] not in COMPARED}
    most = {entry: wanted_of[entry] - 1 if entry in by_shape else 0 for entry in entries}
    possible = not NEVER_MISSING.intersection(entries) and all(wanted_of[entry] for entry in entries)
    return len(entries) == len(most) and possible and all(measured[entry] <= most[entry] for entry in entries)


def _checked(row: Json) -> str:
    large = row["of"] != CEILING and row["operations"] > LARGEST_OPERATIONS
    return RANDOM_VECTORS if large else EVERY_ELEMENT


def _residual_of(row: Json) -> bool:
    value = row["residual"]
    return value >= 0 and (not DTYPES[row["dtype"]].exact or value == int(value))


def _every_ceiling(accelerated: bool) -> set[tuple[str, str, str]]:
    """Kernel, type and provider of all that are measured on a CPU, or on GPUs."""
    return {(each.kernel, each.dtype, who) for each in ceilings(accelerated) for who in each.providers}


def _ceilings(raw: Json, every: set[tuple[str, str, str]]) -> bool:
    """Whether each ceiling is there by each provider that is not missing, with what its shape counts."""
    rows = [row for row in raw["rows"] if row["of"] == CEILING]
    measured = {(row["kernel"], row["dtype"], row["provider"]) for row in rows}
    whole = measured <= every and every - measured <= _left_out(raw)
    counted = all((row["operations"], row["nbytes"]) == _counted(row) != (0, 0) for row in rows)
    vectors = {row["shape"] for row in rows if row["kernel"] in OF_VECTORS}
    return whole and counted and len(vectors) <= 1 and all(map(_plain, rows))


def _plain(row: Json) -> bool:
    return (row["direction"], row["occurrences"]) == (CEILING, 1)


def _counted(row: Json) -> tuple[int, int]:
    """Operations and bytes of a ceiling's shape; what no shape has if it is none."""
    if row["kernel"] == FMA_PEAK and (found := re.fullmatch(r"sums(\d{1,12}) steps(\d{1,12})", row["shape"])):
        sums = fma_peak.Shape(int(found[1]), int(found[2]))
        return fma_peak.operations(sums), fma_peak.nbytes(sums)
    if row["kernel"] in OF_VECTORS and (found := re.fullmatch(r"length(\d{1,12})", row["shape"])):
        if row["kernel"] == TRIAD:
            return triad.operations(triad.Shape(int(found[1]))), triad.nbytes(triad.Shape(int(found[1])))
        return copy.operations(copy.Shape(int(found[1]))), copy.nbytes(copy.Shape(int(found[1])))
    return -1, -1
