"""The stored result, with tables of kernels and collectives before its tests, whose measurements are made up."""

import json
from functools import cache
from typing import Any

import kernel_rows
import measured_collectives as collectives
from hpcai.result.collectives import ONE_RANK, same_as
from small_run import INPUT, golden

from hpcai import result as results
from hpcai.comm.grid_coordinates import described, grids_of, groups_of
from hpcai.inputfile import parse

Json = dict[str, Any]

SECTIONS = "[kernels]\nresnet8 8 auto SHAPES\n2 BATCH\n[comm]\n1K 64K SIZES\n2 GROUPS\n1 DEGREE\n\n[ensemble]"
SKIPPED = {"group": ONE_RANK, "across": same_as("world"), "node": same_as("world"), "between": ONE_RANK}
MEMORY = {
    "peak_bytes": 300 * 2**20,
    "baseline_bytes": 200 * 2**20,
    "device_peak_bytes": 0,
    "whole_run": False,
    "accelerated": False,
    "planned_bytes": 310 * 2**20,
}


@cache
def _made(trained: bool) -> str:
    stored = golden()
    text = INPUT.read_text("utf-8").replace("[ensemble]", SECTIONS)
    problem = parse(text if trained else text.partition("[ensemble]")[0], name="input.dat")
    made = {**stored, "input": problem.as_dict(), **{member: [] for member in results.EMPTY}}
    kernels, comm, *others = cases = problem.cases(2)
    made["environment"] |= described(grids_of(case.settings for case in cases), 2)
    for rank in made["ranks"]:
        rank["groups"] = groups_of(rank["rank"], grids_of(case.settings for case in cases))
    results.enter(made, kernels, {**kernel_rows.raw_of(kernels, 512, 1024), "memory": MEMORY})
    measured = collectives.raw_of(comm, {"world": 2}, SKIPPED, lambda nbytes: 1e-5 + 1e-9 * nbytes)
    results.enter(made, comm, {**measured, "memory": MEMORY})
    del stored["tests"][0]["raw"]["phases"]["start-up"]  # is told by the first case
    for case, test in zip(others, stored["tests"], strict=False):
        results.enter(made, case, test["raw"])
    return json.dumps(results.sealed(made, len(cases)))


def with_tables() -> Json:
    """The made-up result, to be altered at will."""
    return dict(json.loads(_made(True)))


def tables_alone() -> Json:
    """The same without a test, to be altered at will."""
    return dict(json.loads(_made(False)))
