"""A test that ended early: what was measured of it until then. It is no row, has no verdict, and is never ranked."""

from typing import Any

from hpcai.formulas import score
from hpcai.inputfile import Case
from hpcai.result import nas
from hpcai.result.judge import per_sample, tv
from hpcai.result.tables import TABLES

Json = dict[str, Any]


def broken_off(case: Case, cause: str, raw: Json | None) -> Json:
    """The test as it stands in the result file; `raw` is None if the run ended before it began, and of a table."""
    known = {"index": case.index, "workload": case.workload, "cause": cause}
    if case.workload in TABLES:
        return {**known, "tv": None, "n": 0, "gflops": None, "raw": None}
    known["tv"] = tv(case.settings, case.workload)
    if raw is None:
        return {**known, "n": 0, "gflops": None, "raw": None}
    searched = case.workload == "nas"
    credited = nas.credited(case, raw) if searched else per_sample(case, raw) * raw["samples"]
    rate = score.flops(credited, raw["seconds"]) / 1e9 if raw["seconds"] else None
    return {**known, "n": raw["samples"], "gflops": rate, "raw": raw}
