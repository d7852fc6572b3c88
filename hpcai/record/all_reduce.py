"""Records of the summation of gradients in a group: the path that was chosen, and what it sent."""

from typing import Annotated, Literal

from hpcai.gradients.layout import LinkName
from hpcai.record.record import NonNegative, Positive, Record, Seconds, about

Algorithm = Literal["flat", "hierarchical", "torus"]
LinkBackend = Literal["gloo", "nccl", "mpi"]


class Linked(Record, kw_only=True):
    """A link between ranks of a group."""

    link: Annotated[LinkName, about("group; node, between (nodes); row, column")]
    ranks: Annotated[Positive, about("ranks that it connects, in the first group")]


class TimedPath(Record, kw_only=True):
    """A path that was timed before the clock."""

    algorithm: Annotated[Algorithm, about("algorithm")]
    by: Annotated[LinkBackend, about("backend")]
    seconds: Annotated[Seconds, about("time to sum the gradients of a step, of the slowest rank", unit="s")]
    processor: Annotated[Seconds, about("processor time meanwhile / threads of a rank, of the busiest rank", unit="s")]

    @property
    def cost(self) -> float:
        """What the path is chosen by: processor time is taken from the backward pass beside it."""
        return self.seconds + self.processor


class AllReduce(Record, kw_only=True):
    """How the gradients of a group were summed."""

    algorithm: Annotated[Algorithm, about("algorithm; with ALLREDUCE auto the one with the least seconds + processor")]
    by: Annotated[LinkBackend, about("backend that sends")]
    links: Annotated[tuple[Linked, ...], about("links of the algorithm")]
    compared: Annotated[tuple[TimedPath, ...], about("paths that were compared; none where there was one")]
    ranks_per_node: Annotated[
        Positive | None,
        about("consecutive ranks that counted as a node, by HPCAI_TEST_RANKS_PER_NODE; null: nodes are hosts"),
    ] = None

    @property
    def sizes(self) -> dict[LinkName, int]:
        """Ranks by link."""
        return {each.link: each.ranks for each in self.links}


class SentGradients(Record, kw_only=True):
    """What a rank sent to sum gradients in the timed region, means over the ranks."""

    bytes: Annotated[
        dict[str, NonNegative], about("bytes sent in a step, by link: group; node, between; row, column", unit="B")
    ]
    packing: Annotated[Seconds, about("time of packing gradients for the wire", unit="s")]

    def __hash__(self) -> int:
        return hash((*self.bytes.items(), self.packing))


class GradientCost(Record, kw_only=True):
    """What the summation of gradients costs a rank."""

    sent: Annotated[
        float,
        about("sum of sent.bytes", unit="B", label="gradients that a rank sends in a step, MB", scale=1e6),
    ]
    compression: Annotated[
        float | None,
        about(
            "bytes by the same algorithm in fp32 / bytes sent",
            label="compression of the gradients",
            absent="n/a, nothing was sent",
        ),
    ]
    packing: Annotated[float, about("packing / Time", label="share of training, packing of gradients")]
