"""Roofline of a test: its share of each ceiling measured before it, the binding bound, and its gradient bandwidth.

Also the bandwidth that its gradients used (HPC AI500 V2; docs/METRICS.md, The roofline).
"""

from collections.abc import Sequence
from math import log

from hpcai.formulas import roofline
from hpcai.formulas.precision import PRECISIONS
from hpcai.gradients.wires import WIRES
from hpcai.inputfile import Case
from hpcai.kernels.spec import DTYPES
from hpcai.opcount import traffic
from hpcai.record.roofline import (
    AllReduceSource,
    Ceilings,
    CeilingShares,
    GradientBandwidth,
    GroupScope,
    Intensity,
    KernelsSource,
    Roofline,
)
from hpcai.record.training import TrainingRaw
from hpcai.results.exchange_cost import exchanged_in_a_step
from hpcai.results.gains import GRID
from hpcai.results.gradient_cost import sent_in_a_step
from hpcai.results.measured import Before
from hpcai.results.pipeline_cost import sent_between_stages
from hpcai.results.row import graph_of
from hpcai.update_rules import rule_of
from hpcai.workloads.comm.record import CollectiveRow
from hpcai.workloads.kernels.record import KernelCeilings, KernelRow
from hpcai.workloads.kernels.scores import SUMMED, ceilings, fastest, passed, providers_of

COLLECTIVE_OF = {"flat": "all_reduce"}  # names of an algorithm in tables of collectives, where another
PRODUCTS = ("gemm", "convolution")


def under_roofline(case: Case, raw: TrainingRaw, rate: float, before: Before) -> Roofline:
    """Roofline of a test with rate `rate` in FLOPS."""
    graph = graph_of(case, raw.dataset)
    rule, clips = rule_of(case.settings), bool(case.settings.get("CLIP"))
    step = traffic.replica_step(graph, case.cut, case.chunks, case.precision, rule, clips)
    source, measured = _kernels(before.kernels, PRECISIONS[case.precision].product)
    reduced = _all_reduce(case, raw, traffic.gradient_bytes(graph, WIRES[case.wire].nbytes), before)
    moved = sent_in_a_step(case, raw) + exchanged_in_a_step(case, raw) + sent_between_stages(case, raw)
    own = rate / (case.groups * case.degree)
    return placed(own, step, moved * case.cut.parts, source, measured, reduced)


def placed(
    rate: float,
    step: traffic.Traffic,
    moved: float,
    source: KernelsSource | None,
    measured: KernelCeilings | None,
    reduced: AllReduceSource | None,
) -> Roofline:
    """A rank's FLOP/s under its ceilings.

    step, moved: operations and bytes of a step of a replica, of all its ranks, and the bytes that these send; 0 where a
    rank trains alone.
    """
    intensity = Intensity(memory=step.intensity, communication=step.operations / moved if moved else None)
    products = {name: getattr(measured, name, None) for name in PRODUCTS}
    bounds: dict[roofline.Bound, float | None] = {
        roofline.COMPUTE: roofline.combined(step.work(), products),
        roofline.MEMORY: roofline.bound(measured.triad if measured else None, intensity.memory),
        roofline.COMMUNICATION: roofline.bound(reduced.bandwidth if reduced else None, intensity.communication),
    }
    lowest, binding = roofline.attainable(bounds)
    against: dict[str, float | None] = {"fma_peak": measured.fma_peak if measured else None, **products}
    against |= {str(name): value for name, value in bounds.items()}
    against["attainable"] = lowest
    return Roofline(
        rate=rate,
        intensity=intensity,
        ceilings=Ceilings(**against),
        shares=CeilingShares(**{name: roofline.share(rate, ceiling) for name, ceiling in against.items()}),
        binding=binding,
        kernels=source,
        all_reduce=reduced,
    )


def _kernels(measured: Sequence[KernelRow], wanted: str) -> tuple[KernelsSource | None, KernelCeilings | None]:
    """The last table of kernels and its ceilings, in the type that the test multiplies where the table has it.

    Else in fp32; the rate of int8 would be no ceiling.
    """
    if not measured:
        return None, None
    rows = passed([row for row in measured if row.test == measured[-1].test])
    products = [row.dtype for row in rows if row.kernel in SUMMED.values()]
    dtype = wanted if wanted in products or DTYPES[wanted].exact else "fp32"
    found = ceilings(rows, dtype)
    counts = {name: faster(rows, name, dtype) for name in PRODUCTS}
    return KernelsSource(test=measured[-1].test, triad=found.triad, faster=counts, type=dtype), found


def faster(rows: Sequence[KernelRow], ceiling: str, dtype: str = "fp32") -> dict[str, int]:
    """Number of distinct products of a ceiling that each provider computes faster, of rows that PASSED."""
    own = [row for row in rows if (row.kernel, row.dtype) == (SUMMED[ceiling], dtype)]
    providers = [row.provider for row in fastest(own)]
    return {provider: providers.count(provider) for provider in providers_of(own)}


def _all_reduce(case: Case, raw: TrainingRaw, gradients: int, before: Before) -> AllReduceSource | None:
    """The bus bandwidth of the all-reduce that trains: its algorithm and backend, its ranks, nearest to its size.

    Of the group's own scope in the last table with the same grid; else of a world of as many ranks, which one group
    makes: of that table, else of the last one that has it.
    """
    used, collective = (raw.all_reduce.by, raw.all_reduce.algorithm) if raw.all_reduce else (raw.backend, "flat")
    grids = {table.index: [table.settings.get(key) for key in GRID] for table in before.tables}
    tables = sorted({row.test for row in before.collectives}, reverse=True)
    own = [test for test in tables if grids[test] == [case[key] for key in GRID]][:1]
    searched: list[tuple[GroupScope, int]] = [("group", test) for test in own]
    searched += [("world", test) for test in (*own, *tables)]
    for scope, test in searched:
        wanted = (test, scope, used, case.degree, COLLECTIVE_OF.get(collective, collective), "PASSED")
        sound = [row for row in before.collectives if _of(row) == wanted]
        if sound:
            row = min(sound, key=lambda row: (abs(log(row.nbytes / gradients)), row.nbytes))
            return AllReduceSource(test=test, scope=scope, by=row.by, nbytes=row.nbytes, bandwidth=row.busbw)
    return None


def _of(row: CollectiveRow) -> tuple[int, str, str, int, str, str]:
    return row.test, row.scope, row.by, row.ranks, row.collective, row.verdict


def gradient_bandwidth(case: Case, raw: TrainingRaw) -> GradientBandwidth:
    """Bytes per second that a rank sent to average gradients, within and between nodes; None without such groups.

    Models have different numbers of steps under some samplers: the mean counts.
    """
    models, ranks = case.groups, case.degree
    between = raw.models.between_nodes if ranks > 1 else 0
    within = models - between if ranks > 1 else 0
    rate = roofline.bandwidth(sent_in_a_step(case, raw), raw.work.steps / models, raw.phases.training)
    return GradientBandwidth(within=rate if within else None, between=rate if between else None)
