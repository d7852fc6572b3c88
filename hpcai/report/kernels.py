"""What is printed of a case of `[kernels]`: its ceilings, a line for each product and provider, sums per network."""

from collections.abc import Iterator, Sequence
from typing import Any

from hpcai.kernels.spec import DTYPES
from hpcai.kernels.verify import EVERY_ELEMENT
from hpcai.opcount.ceilings import FMA_PEAK
from hpcai.opcount.products import SQUARE
from hpcai.report.layers import layers
from hpcai.report.text import counted, free, printed
from hpcai.result.kernels import CEILING, sums, verdict

Json = dict[str, Any]

LINE = "=" * 80
SHAPE = 46  # columns
HEAD = (
    f"{'shape':<{SHAPE}} {'direction':<15} {'type':<5} {'provider':<8} {'time, ms':>12} {'GFLOP/s':>10} "
    f"{'ratio':>7} {'of peak':>8} {'FLOP/byte':>10} {'residual':>12} verdict"
)
NAMES = {"gemm": "matrix products", "conv2d": "convolutions"}
LETTERS = (
    "n pictures, c channels, h x w pixels, f filters, k kernel, s stride, p padding, d dilation, g groups; "
    "matrices m x k by k x n"
)
MEANINGS = (
    "ratio: time of the vendor / time of custom; of peak: share of the FMA peak of that type; "
    "residual: at most 1, of int8 wrong elements or random sums"
)
NONE = "-"


def block(table: Json, rows: Sequence[Json]) -> str:
    """The table of one case; `rows` are its derived ones."""
    return printed(_lines(table, rows))


def _lines(table: Json, rows: Sequence[Json]) -> Iterator[str]:
    raw = table["raw"]
    what = f"{counted(raw['ranks'], 'rank')} at once, {_threads(raw)}, {_passed(rows)}"
    yield LINE
    yield f"Kernels, test {table['index']}: {what} ...... {verdict(rows)}"
    yield f"  {LETTERS}"
    yield f"  {MEANINGS}"
    for row in rows:
        if row["of"] == CEILING:
            yield _ceiling(row, raw["ranks"])
    for of in dict.fromkeys(row["of"] for row in rows if row["of"] != CEILING):
        yield from ("", _title(of, table["settings"]), HEAD, "-" * len(HEAD))
        yield from map(_row, (row for row in rows if row["of"] == of))
        yield from (_sum(found) for found in sums(rows) if found["of"] == of)
        if of != SQUARE:
            for dtype in dict.fromkeys(row["dtype"] for row in rows if row["of"] == of):
                yield from ("", *(f"  {line}" for line in layers(of, table["settings"], rows, dtype)))
    yield from (_missing(each) for each in raw["missing"])
    yield ""


def _threads(raw: Json) -> str:
    return f"{counted(raw['threads'], 'thread')} each"


def _passed(rows: Sequence[Json]) -> str:
    passed = sum(row["verdict"] == "PASSED" for row in rows)
    return f"{passed} of {counted(len(rows), 'row')} passed"


def _title(of: str, settings: Json) -> str:
    return f"{of}, batch {settings['BATCH']}" if of != SQUARE else "square matrices (int8: integer operations, Gop/s)"


def _ceiling(row: Json, ranks: int) -> str:
    """A ceiling of one rank, and of all together."""
    name, rate, unit = row["kernel"], row["nbytes"] / row["seconds"] / 1e9, "GB/s"
    if name == FMA_PEAK:
        name, rate, unit = "FMA peak", row["gflops"], "Gop/s" if DTYPES[row["dtype"]].exact else "GFLOP/s"
    title = f"{name} {row['dtype']}, {row['provider']}"
    rates = f"{rate:12.2f} {unit} a rank, {ranks * rate:12.2f} all"
    return f"  {title:<26}: {rates}, {_residual(row)} {row['verdict']}{_way(row)}"


def _row(row: Json) -> str:
    shape = row["shape"] + (f" {row['occurrences']} times" if row["occurrences"] > 1 else "")
    numbers = f"{1e3 * row['seconds']:12.4f} {row['gflops']:10.2f} {_or_none(row['ratio'], 7, 3)}"
    shares = f"{_or_none(row['share'], 8, 3)} {_or_none(row['intensity'], 10, 2)} {_residual(row)}"
    return (
        f"{shape:<{SHAPE}} {row['direction']:<15} {row['dtype']:<5} {row['provider']:<8} {numbers} {shares} "
        f"{row['verdict']}{_way(row)}"
    )


def _way(row: Json) -> str:
    """By which of several ways, and how it was checked if not by every element."""
    how = "" if row["checked"] == EVERY_ELEMENT else row["checked"]
    return "".join(f", {word}" for word in (row["variant"], how) if word)


def _or_none(value: float | None, width: int, digits: int) -> str:
    return f"{NONE:>{width}}" if value is None else f"{value:{width}.{digits}f}"


def _residual(row: Json) -> str:
    return f"{row['residual']:12.0f}" if DTYPES[row["dtype"]].exact else f"{row['residual']:12.4f}"


def _sum(found: Json) -> str:
    """All products of a kernel in a step."""
    rate = found["operations"] / found["fastest"] / 1e9
    taken = ", ".join(f"{provider} {_milliseconds(seconds)}" for provider, seconds in found["seconds"].items())
    compared = "" if found["ratio"] is None else f", ratio {found['ratio']:.3f}"
    inside = "" if found["dtype"] == "fp32" else f" in {found['dtype']}"
    what = f"{NAMES[found['kernel']]}{inside}, {found['products']} in a step"
    return f"  {what:<36}: {taken}{compared}; the faster ones {rate:.2f} GFLOP/s"


def _milliseconds(seconds: float | None) -> str:
    return f"{NONE} ms" if seconds is None else f"{1e3 * seconds:.4f} ms"


def _missing(each: Json) -> str:
    return f"  not measured: {each['kernel']} {each['dtype']}, {each['provider']}: {free(each['why'])}"
