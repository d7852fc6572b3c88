"""The row of a test in HPL's layout, and its parts: T/V, operations by rule `model`, verdict of the checks."""

from collections.abc import Iterable
from typing import Any, TypeVar

from hpcai import networks, opcount
from hpcai.formulas.eligibility import Eligibility, with_assumed_nodes, with_lost_groups
from hpcai.formulas.precision import PRECISIONS
from hpcai.gradients.reductions import AUTO, REDUCTIONS
from hpcai.gradients.wires import WIRES
from hpcai.inputfile import Case
from hpcai.inputfile.split import MODES
from hpcai.networks.graph import Graph
from hpcai.record.all_reduce import AllReduce
from hpcai.record.dataset import Dataset
from hpcai.record.entry import Check, Operations, Row
from hpcai.record.record import Verdict
from hpcai.results.entry import clock_checks, entry
from hpcai.results.measured import Measured
from hpcai.workloads.registry import workload

RULE = "model"  # counting rule of FLOPS
Entry = TypeVar("Entry", bound=Row)


def row(
    kind: type[Entry],
    case: Case,
    measured: Measured,
    *,
    n: int,
    nb: int,
    seconds: float,
    operations: Operations,
    checks: tuple[Check, ...],
    scores: Any,
    eligible: Eligibility,
    **others: Any,
) -> Entry:
    """The entry of a test with a row; `scores` have `flops`; `others`: the fields that only this workload has."""
    reduced: AllReduce | None = getattr(measured.raw, "all_reduce", None)
    checks = (*checks, *clock_checks(measured.wall))
    eligible = with_assumed_nodes(eligible, reduced.ranks_per_node if reduced else None)
    if workload(case.workload).ensembles:
        eligible = with_lost_groups(eligible, len(case.lost), case.planned_groups)
    return entry(
        kind,
        case,
        measured,
        verdict(checks),
        tv=tv(case, reduced),
        n=n,
        nb=nb,
        p=case.planned_groups,
        q=case.degree,
        seconds=seconds,
        gflops=scores.flops / 1e9,
        operations=operations,
        checks=checks,
        scores=scores,
        status=eligible.status,
        reasons=eligible.reasons,
        **others,
    )


def tv(case: Case, reduced: AllReduce | None = None) -> str:
    """The eight characters of T/V (docs/METRICS.md); 0 and N for a test without training.

    reduced: what ALLREDUCE auto chose; without it 0 stands for that.
    """
    order = {"row": "R", "column": "C"}[case.mapping]
    if not case.trains:
        return f"W{order}{workload(case.workload).digit}0N0N0"
    algorithm = reduced.algorithm if reduced else case.allreduce
    reduction = 0 if case.split.replicas == 1 or algorithm == AUTO else REDUCTIONS[algorithm].digit
    precision = PRECISIONS[case.precision].letter
    mode = 1 + MODES.index(case.parallel)
    kernels = {"vendor": "V", "custom": "C", "auto": "A", "file": "F"}[case.kernels.partition(":")[0]]
    wire = WIRES[case.wire].nbytes
    return f"W{order}{workload(case.workload).digit}{reduction}{precision}{mode}{kernels}{wire}"


def graph_of(case: Case, dataset: Dataset) -> Graph:
    """The network of a case for its data."""
    return networks.for_data(case, dataset.shape, dataset.classes)


def per_sample(case: Case, dataset: Dataset, rule: str = RULE) -> int:
    """Operations of one training sample, by the headline rule or another."""
    return opcount.count(graph_of(case, dataset), rule).total


def operations(case: Case, dataset: Dataset, samples: int, skipped_samples: int, executed: int) -> Operations:
    """Operations by the headline rule: of one sample, credited, skipped, and executed as the layers' hooks counted."""
    each = per_sample(case, dataset)
    return Operations(
        rule=RULE,
        per_sample=each,
        credited=each * samples,
        skipped=each * skipped_samples,
        executed=executed,
    )


def verdict(checks: Iterable[Check]) -> Verdict:
    """PASSED if no check is FAILED."""
    return "FAILED" if any(check.verdict == "FAILED" for check in checks) else "PASSED"
