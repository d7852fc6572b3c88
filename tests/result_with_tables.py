"""The stored result, with made-up tables of kernels and collectives before its tests."""

import json
from functools import cache
from typing import Any

import sample_collectives as collectives
import sample_kernel_rows
from msgspec import structs
from sample_records import MEMORY, altered
from small_run import INPUT, golden

from hpcai.comm.grid_coordinates import grids_of, groups_of, idle_ranks, listed_grids
from hpcai.formulas.collectives import ONE_RANK, same_as
from hpcai.inputfile import parse
from hpcai.record.loading import result_of
from hpcai.record.plain import text
from hpcai.record.problem import input_of
from hpcai.record.result import Result
from hpcai.results.alterations import changed
from hpcai.results.assembly import enter, without_tests
from hpcai.results.measured import Measured
from hpcai.results.summary import sealed

Json = dict[str, Any]

SECTIONS = "[kernels]\nresnet8 8 auto SHAPES\n2 BATCH\n[comm]\n1K 64K SIZES\n2 GROUPS\n1 DEGREE\n\n[ensemble]"
SKIPPED = {"group": ONE_RANK, "across": same_as("world"), "node": same_as("world"), "between": ONE_RANK}


@cache
def result_with_tables(trained: bool = True) -> Result:
    """The made-up result; without a test unless `trained`."""
    stored = result_of(golden())
    input_text = INPUT.read_text("utf-8").replace("[ensemble]", SECTIONS)
    problem = parse(input_text if trained else input_text.partition("[ensemble]")[0], name="input.dat")
    kernels, comm, *others = cases = problem.cases(2)
    grids = grids_of(cases)
    listed = {"grids": listed_grids(grids), "idle": idle_ranks(grids, 2)}
    ranks = tuple(structs.replace(rank, groups=tuple(groups_of(rank.rank, grids))) for rank in stored.ranks)
    environment = structs.replace(stored.environment, **listed)
    made = structs.replace(without_tests(stored), input=input_of(problem), environment=environment, ranks=ranks)
    made, _ = enter(made, kernels, Measured(sample_kernel_rows.raw_of(kernels, 512, 1024), MEMORY))
    measured = collectives.raw_of(comm, {"world": 2}, SKIPPED, lambda nbytes: 1e-5 + 1e-9 * nbytes)
    made, _ = enter(made, comm, Measured(measured, MEMORY))
    for case, test in zip(others, stored.tests, strict=False):
        raw = altered(test.raw, changed("phases.start_up", None))  # which the first case of a run includes
        made, _ = enter(made, case, Measured(raw, test.memory, test.telemetry))
    return sealed(made, len(cases))


def with_tables() -> Json:
    """The made-up result as JSON, free to be altered."""
    return dict(json.loads(text(result_with_tables())))


def tables_alone() -> Json:
    """The same without a test, free to be altered."""
    return dict(json.loads(text(result_with_tables(trained=False))))
