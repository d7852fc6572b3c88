"""Tests that make a table of their own and no row of HPL: kernels and collectives. They are checked, never ranked."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hpcai.inputfile import Case
from hpcai.opcount.ceilings import COPY
from hpcai.result import collectives, kernels

Json = dict[str, Any]


@dataclass(frozen=True)
class Table:
    """How one workload's raw measurements become rows, in the member of the result that has them, and a verdict.

    `derived` makes what else stands in the table from its rows.
    """

    member: str
    rows: Callable[[Case, Json], list[Json]]
    verdict: Callable[[Sequence[Json]], str]
    derived: Mapping[str, Callable[[Sequence[Json]], Any]] = field(default_factory=dict)


TABLES = {
    "kernels": Table("kernels", kernels.rows, kernels.verdict, {"ceilings": kernels.told_ceilings}),
    "comm": Table("collectives", collectives.rows, collectives.verdict, {"fits": collectives.fits}),
}
CEILINGS, BUS = ("fma_peak", "gemm", "convolution", "triad"), "all_reduce_bus"
FURTHER = (COPY, *kernels.PEAKS_ON_GPUS)  # ceilings that are measured there only
MEMBERS = {name: table.member for name, table in TABLES.items()}


def judge_table(case: Case, raw: Json) -> tuple[Json, list[Json]]:
    """One table as it stands in the result file, and its rows, from its case and its raw measurements."""
    kind = TABLES[case.workload]
    rows = kind.rows(case, raw)
    settings = {key: list(value) if isinstance(value, tuple) else value for key, value in case.settings.items()}
    table = {
        "index": case.index,
        "workload": case.workload,
        "settings": settings,
        "raw": raw,
        "verdict": kind.verdict(rows),
        **{name: make(rows) for name, make in kind.derived.items()},
    }
    return table, rows


def rows_of(result: Json, table: Json) -> list[Json]:
    """The rows of a table of a result."""
    return [row for row in result[MEMBERS[table["workload"]]] if row["test"] == table["index"]]


def ceilings(result: Json) -> Json:
    """The highest rates that tables of a result that PASSED have found, in FLOP/s and bytes/s; None where none did."""
    passed = [table for table in result["tables"] if table["verdict"] == "PASSED"]
    told = [table["ceilings"] for table in passed if "ceilings" in table]
    further = [name for name in FURTHER if any(name in ceilings for ceilings in told)]
    found = {name: [ceilings.get(name) for ceilings in told] for name in (*CEILINGS, *further)}
    sound = [table["index"] for table in passed]
    found[BUS] = [
        row["busbw"] for row in result["collectives"] if row["test"] in sound and row["collective"] == "all_reduce"
    ]
    return {name: max((rate for rate in rates if rate is not None), default=None) for name, rates in found.items()}
