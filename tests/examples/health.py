"""Tables of `[health]`: nodes of two ranks, one or three."""

from sample_records import MEMORY, TELEMETRY, environment, with_fields

from hpcai.inputfile import Case
from hpcai.record.machine import Environment
from hpcai.results.claim import Subject
from hpcai.results.measured import Before, Measured
from hpcai.workloads.health.checks import ALL_REDUCE, LINKS, TRIAD, build, gemm
from hpcai.workloads.health.record import HealthRaw, NodeRates, SkippedRate, SlowNode

CASE = Case(4, "health", {"TYPES": ("fp32", "bf16"), "SIDE": 0, "TOLERANCE": 0.25, "SEED": 1, "TELEMETRY": 30.0})
CLUSTER = environment(ranks=6, nodes=3)
ONLY_GPUS = SkippedRate(quantity=gemm("bf16"), why="bf16 is measured on GPUs; this is a CPU")


def rates(quantity: str, values: tuple[float, ...], slow: int = 0, attempts: int = 1) -> NodeRates:
    """Rates of nodes of two ranks, ascending."""
    middle = values[len(values) // 2]
    return NodeRates(
        quantity=quantity,
        unit="FLOP/s" if "gemm" in quantity else "B/s",
        attempts=attempts,
        minimum=values[0],
        lower_quartile=values[(len(values) - 1) // 4],
        median=middle,
        upper_quartile=values[-1 - (len(values) - 1) // 4],
        maximum=values[-1],
        deviation=sorted(abs(value - middle) for value in values)[len(values) // 2],
        slow=slow,
        slowest=tuple(SlowNode(host=f"node{at}", rank=2 * at, rate=value) for at, value in enumerate(values)),
    )


def raw_of(found: tuple[NodeRates, ...], skipped: tuple[SkippedRate, ...], machine: Environment) -> HealthRaw:
    """Measurements of a run on that machine."""
    return HealthRaw(nodes=machine.nodes, ranks=machine.ranks, threads=1, rates=found, skipped=skipped)


def subject_of(raw: HealthRaw, machine: Environment) -> Subject:
    """The table of a run."""
    telemetry = with_fields(TELEMETRY, nodes=machine.nodes)
    return Subject(CASE, build(CASE, Measured(raw, MEMORY, telemetry), Before()), machine)


def three_nodes() -> HealthRaw:
    """Sound nodes."""
    values = {gemm("fp32"): (39e9, 40e9, 42e9), TRIAD: (9e9, 10e9, 10e9), ALL_REDUCE: (1e9, 1e9, 1e9)}
    found = {**values, LINKS: (0.11e9, 0.118e9, 0.12e9)}
    return raw_of(tuple(rates(name, some) for name, some in found.items()), (ONLY_GPUS,), CLUSTER)


def one_node() -> HealthRaw:
    """Two ranks, without links."""
    skipped = (ONLY_GPUS, SkippedRate(quantity=LINKS, why="one node"))
    values = {gemm("fp32"): 40e9, TRIAD: 10e9, ALL_REDUCE: 1e9}
    return raw_of(tuple(rates(name, (value,)) for name, value in values.items()), skipped, environment())


EXAMPLES = {"": subject_of(one_node(), environment()), "three nodes": subject_of(three_nodes(), CLUSTER)}
