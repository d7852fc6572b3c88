"""What follows from the raw measurements of `[kernels]`: rates, shares, ratios, verdicts, sums and ceilings."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from hpcai.inputfile import Case
from hpcai.kernels.providers import CUSTOM, VENDOR, in_order
from hpcai.kernels.residual import ELEMENTWISE_LIMIT
from hpcai.kernels.spec import DIRECTIONS, DTYPES
from hpcai.opcount.ceilings import COPY, FMA_PEAK, PEAKS, TRIAD

Json = dict[str, Any]

COMPARED = (CUSTOM, VENDOR)  # providers that every table has
CEILING = "ceiling"
PEAKS_ON_GPUS = {f"fma_peak_{dtype}": dtype for dtype in PEAKS[True] if dtype != "fp32"}  # members of a table
SUMMED = {"gemm": "gemm", "convolution": "conv2d"}  # what bounds training: the kernel whose rows make each ceiling
PRODUCT = ("of", "kernel", "direction", "shape", "dtype")  # what rows of one product have in common

_Seconds = Mapping[tuple[str, ...], float]


def rows(case: Case, raw: Json) -> list[Json]:
    """The measured rows with what follows from them, in their order."""
    peaks = {
        row["dtype"]: row["operations"] / row["seconds"]
        for row in raw["rows"]
        if row["kernel"] == FMA_PEAK and row["provider"] == CUSTOM
    }
    seconds = {(*product(row), row["provider"]): row["seconds"] for row in raw["rows"]}
    return [{"test": case.index, **row, **_derived(row, peaks.get(row["dtype"]), seconds)} for row in raw["rows"]]


def product(row: Json) -> tuple[str, ...]:
    """What all rows of one product have in common."""
    return tuple(row[name] for name in PRODUCT)


def _derived(row: Json, peak: float | None, seconds: _Seconds) -> Json:
    rate = row["operations"] / row["seconds"]
    return {
        "gflops": rate / 1e9,
        "intensity": row["operations"] / row["nbytes"] if row["nbytes"] else None,
        "share": rate / peak if peak else None,
        "ratio": _ratio(row, seconds),
        "verdict": "PASSED" if row["residual"] <= limit(row["dtype"]) else "FAILED",
    }


def limit(dtype: str) -> float:
    """Largest residual of a row that PASSED: whole numbers are exact, else the limit of the element-wise measure."""
    return 0.0 if DTYPES[dtype].exact else ELEMENTWISE_LIMIT


def _ratio(row: Json, seconds: _Seconds) -> float | None:
    """That of the row's provider or, in the vendor's row, of the custom kernel."""
    provider = CUSTOM if row["provider"] == VENDOR else row["provider"]
    return ratio(*(seconds.get((*product(row), each)) for each in (provider, VENDOR)))


def ratio(own: float | None, vendor: float | None) -> float | None:
    """How many times as fast as the vendor's a kernel is, from their seconds; None where one was not measured."""
    return vendor / own if own and vendor else None


def providers_of(rows: Iterable[Json]) -> tuple[str, ...]:
    """The providers that a table has, in the order of reports."""
    return in_order((*COMPARED, *(row["provider"] for row in rows)))


def verdict(rows: Sequence[Json]) -> str:
    """PASSED if every row is; nothing measured is nothing passed."""
    return "PASSED" if rows and all(row["verdict"] == "PASSED" for row in rows) else "FAILED"


def ceilings(rows: Sequence[Json], dtype: str = "fp32") -> Json:
    """FLOP/s in a type and bytes/s of one rank, of rows that PASSED; None where there are none.

    Products count as often as a step of their network has them, each by the provider that is faster (HPC AI500 V2,
    section on the roofline: convolution and GEMM are the upper bound).
    """
    sound = passed(rows)
    found: Json = {"fma_peak": _fastest(sound, FMA_PEAK, dtype, "operations")}
    for name, kernel in SUMMED.items():
        found[name] = _mean_rate([row for row in sound if (row["kernel"], row["dtype"]) == (kernel, dtype)])
    return {**found, "triad": _fastest(sound, TRIAD, "fp64", "nbytes")}


def told_ceilings(rows: Sequence[Json]) -> Json:
    """Those in fp32 and, of a GPU, what else is measured there: the copy, and multiply-adds of the other types."""
    if all(row["kernel"] != COPY for row in rows):
        return ceilings(rows)
    sound = passed(rows)
    peaks = {member: _fastest(sound, FMA_PEAK, dtype, "operations") for member, dtype in PEAKS_ON_GPUS.items()}
    return {**ceilings(rows), COPY: _fastest(sound, COPY, "fp64", "nbytes"), **peaks}


def passed(rows: Sequence[Json]) -> list[Json]:
    """The rows that may be ceilings."""
    return [row for row in rows if row["verdict"] == "PASSED"]


def _fastest(rows: Sequence[Json], kernel: str, dtype: str, what: str) -> float | None:
    found = (row[what] / row["seconds"] for row in rows if (row["kernel"], row["dtype"]) == (kernel, dtype))
    return max(found, default=None)


def _mean_rate(rows: Sequence[Json]) -> float | None:
    best = fastest(rows)
    seconds = sum(row["occurrences"] * row["seconds"] for row in best)
    return sum(row["occurrences"] * row["operations"] for row in best) / seconds if seconds else None


def fastest(rows: Sequence[Json]) -> list[Json]:
    """One row of each product: that of the provider which took less time."""
    found: dict[tuple[str, ...], Json] = {}
    for row in rows:
        before = found.get(product(row))
        found[product(row)] = row if before is None or row["seconds"] < before["seconds"] else before
    return list(found.values())


def sums(rows: Sequence[Json]) -> Iterator[Json]:
    """Seconds of a kernel's products in a step of each network and type, by provider, and of the faster ones."""
    alike = ("of", "kernel", "dtype")
    networks = dict.fromkeys(tuple(row[name] for name in alike) for row in rows if row["direction"] in DIRECTIONS)
    for step in networks:
        mine = [row for row in rows if tuple(row[name] for name in alike) == step]
        products = {product(row) for row in mine}
        by = {provider: [row for row in mine if row["provider"] == provider] for provider in providers_of(mine)}
        taken = {who: _seconds(some) if len(some) == len(products) else None for who, some in by.items()}
        best = fastest(mine)
        operations = sum(row["occurrences"] * row["operations"] for row in best)
        count = sum(row["occurrences"] for row in best)
        whole = {**dict(zip(alike, step, strict=True)), "products": count, "operations": operations, "seconds": taken}
        yield {**whole, "fastest": _seconds(best), "ratio": ratio(taken[CUSTOM], taken[VENDOR])}


def _seconds(rows: Sequence[Json]) -> float:
    return float(sum(row["occurrences"] * row["seconds"] for row in rows))
