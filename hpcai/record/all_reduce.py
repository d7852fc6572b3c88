"""Records of the summation of gradients in a group: the path that was chosen, and what it sent."""

from typing import Annotated, Literal

from hpcai.record.record import NonNegative, Positive, Record, Seconds, about

Algorithm = Literal["flat", "hierarchical", "torus"]


class AllReduce(Record, kw_only=True):
    """How the gradients of a group were summed."""

    algorithm: Annotated[Algorithm, about("algorithm; with ALLREDUCE auto the one chosen")]
    by: Annotated[Literal["gloo", "nccl", "mpi"], about("backend that sends")]
    links: Annotated[
        dict[str, Positive],
        about("ranks that a link connects, in the first group: group; node, between (nodes); row, column"),
    ]
    seconds: Annotated[
        dict[str, Seconds],
        about("time of each path that was compared, to sum the gradients of a step; empty if there was one", unit="s"),
    ]
    ranks_per_node: Annotated[
        Positive | None,
        about("consecutive ranks that counted as a node, by HPCAI_TEST_RANKS_PER_NODE; null: nodes are hosts"),
    ] = None


class SentGradients(Record, kw_only=True):
    """What a rank sent to sum gradients in the timed region, means over the ranks."""

    bytes: Annotated[
        dict[str, NonNegative], about("bytes sent in a step, by link: group; node, between; row, column", unit="B")
    ]
    packing: Annotated[Seconds, about("time of packing gradients for the wire, beside the backward pass", unit="s")]


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
