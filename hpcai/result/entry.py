"""A case that has ended takes its place in the result: as a test or as a table."""

from typing import Any

from hpcai.inputfile import Case
from hpcai.result import nas
from hpcai.result.judge import judge
from hpcai.result.tables import TABLES, judge_table

Json = dict[str, Any]

JUDGES = {"ensemble": judge, "weather": judge, "nas": nas.judge}
EMPTY = ("tests", "tables", "kernels", "collectives")  # of a result before its first case


def enter(result: Json, case: Case, raw: Json) -> Json:
    """Judge a case and append it to the result, which has all cases before it; the test or table."""
    if case.workload in TABLES:
        table, rows = judge_table(case, raw)
        result["tables"].append(table)
        result[TABLES[case.workload].member] += rows
        return table
    test = JUDGES[case.workload](case, raw, result["tests"], result["tables"])
    result["tests"].append(test)
    return test


def ended(result: Json) -> list[Json]:
    """Tests and tables in the order of their cases."""
    return sorted([*result["tests"], *result["tables"]], key=lambda entry: int(entry["index"]))
