"""Records of `[toy]`: measurements, the scores that follow, and the row of HPL."""

from typing import Annotated, Literal

from hpcai.record.entry import Row
from hpcai.record.record import Count, Positive, PositiveSeconds, Record, about


class ToyRaw(Record, kw_only=True):
    """Raw measurements of `[toy]`."""

    points: Annotated[Positive, about("points that all ranks drew")]
    hits: Annotated[tuple[Count, ...], about("points within the quarter circle, by group")]
    differing_ranks: Annotated[Count, about("ranks whose sum of hits is not that of their group's first rank")]
    seconds: Annotated[PositiveSeconds, about("time of the slowest rank", unit="s")]


class ToyScores(Record, kw_only=True):
    """Scores of `[toy]`."""

    flops: Annotated[
        float,
        about("operations / seconds", unit="FLOP/s", label="FLOPS in GFLOP/s", scale=1e9, csv=True),
    ]
    quality: Annotated[float, about("|4 x hits / points - pi|", label="error of pi", csv=True)]
    target: Annotated[float, about("error to reach", label="target", csv=True)]
    reached: Annotated[bool, about("whether the error is at most the target")]
    points_per_second: Annotated[float, about("points / seconds", unit="1/s", label="points/s", csv=True)]


class ToyRow(Row, kw_only=True):
    """A test of `[toy]`."""

    workload: Literal["toy"] = "toy"
    scores: Annotated[ToyScores, about("scores")]
    raw: Annotated[ToyRaw, about("raw measurements")]


ENTRY, STOPPED = ToyRow, None
