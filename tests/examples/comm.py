"""Tables of `[comm]`."""

from sample_collectives import CLUSTER, NODE, single_node, two_nodes
from sample_records import MEMORY, TELEMETRY, with_fields

from hpcai.inputfile import Case
from hpcai.record.machine import Environment
from hpcai.results.claim import Subject
from hpcai.results.measured import Before, Measured
from hpcai.workloads.comm.checks import build
from hpcai.workloads.comm.record import CommRaw


def subject_of(case: Case, raw: CommRaw, environment: Environment) -> Subject:
    """The table of a run on the nodes of that environment."""
    telemetry = with_fields(TELEMETRY, nodes=environment.nodes)
    return Subject(case, build(case, Measured(raw, MEMORY, telemetry), Before()), environment)


EXAMPLES = {"": subject_of(*single_node(), NODE), "two nodes": subject_of(*two_nodes(), CLUSTER)}
