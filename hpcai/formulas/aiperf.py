"""The score of a search over time: OPS and the regulated score (AIPerf: Ren et al., 2020, arXiv:2008.07141, section 4).

Pure functions of what trials tell of themselves, so that they serve a search that is still going on, too.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Any

from hpcai import opcount
from hpcai.networks.graph import Graph

Json = dict[str, Any]

RULE = "aiperf"  # the operation count behind OPS
OFFICIAL_SECONDS = 3600.0  # an official search runs so long at least
PARTS = 50  # points of a series whose interval is not given
LONGEST = 360.0  # seconds between them, at most
MOST_POINTS = 10_000
LARGEST_ERROR = 1 - 1e-9
SETTLED = 0.01  # share by which a score that has converged still changes


@dataclass(frozen=True)
class Work:
    """Operations of one sample by rule `aiperf`: trained (forward and backward), and validated (forward)."""

    training: int
    validation: int


@dataclass(frozen=True)
class Credit:
    """What a validation, or the end of a search, adds: operations, and the accuracy that was seen (0 without one)."""

    seconds: float
    training: int
    validation: int
    accuracy: float


def work(graph: Graph) -> Work:
    """Operations of a sample in a network."""
    count = opcount.count(graph, RULE)
    return Work(count.total, count.forward)


def accuracy(entry: Mapping[str, Any]) -> float:
    """Share of the validation samples judged right in an entry of a curve; 0 if none was, or the loss is no number."""
    if entry["loss"] is None or entry["correct"] is None or entry["counted"] == 0:
        return 0.0
    return float(entry["correct"] / entry["counted"])


def credits(trial: Mapping[str, Any], each: Work) -> Iterator[Credit]:
    """What a trial adds, entry by entry of its curve: samples times the operations of one."""
    for entry in trial["curve"]:
        yield Credit(
            entry["seconds"], entry["samples"] * each.training, entry["counted"] * each.validation, accuracy(entry)
        )


def interval(wanted: float, duration: float) -> float:
    """Seconds between points: as INTERVAL says; for 0 a 50th of the search, at most 360 s. At most 10,000 points."""
    return max(wanted or min(duration / PARTS, LONGEST), duration / MOST_POINTS)


def series(
    found: Sequence[Credit], returned: Sequence[float], duration: float, step: float, samples: int, first: int = 1
) -> list[Json]:
    """The score after every `step` seconds and at the end of `duration`; `samples` are those of a validation.

    Points before the one of number `first` are left out.

    `returned` are the times at which trials came back. A point: seconds, operations until then, ops (operations /
    seconds), accuracy (the best so far), error, regulated_score, trials (that had come back).
    """
    waiting, back = sorted(found, key=lambda credit: credit.seconds), sorted(returned)
    operations, top, points, used, ended = 0, 0.0, list[Json](), 0, 0
    for seconds in _times(duration, step, first):
        while used < len(waiting) and waiting[used].seconds <= seconds:
            operations += waiting[used].training + waiting[used].validation
            top = max(top, waiting[used].accuracy)
            used += 1
        while ended < len(back) and back[ended] <= seconds:
            ended += 1
        points.append(_point(seconds, operations, top, samples) | {"trials": ended})
    return points


def _times(duration: float, step: float, first: int) -> Iterator[float]:
    count = int(duration / step * (1 - 1e-9))
    yield from (step * number for number in range(first, count + 1))
    yield duration


def _point(seconds: float, operations: int, top: float, samples: int) -> Json:
    wrong, rate = error(top, samples), ops(operations, seconds)
    return {
        "seconds": seconds,
        "operations": operations,
        "ops": rate,
        "accuracy": top,
        "error": wrong,
        "regulated_score": regulated(wrong, rate),
    }


def ops(operations: int, seconds: float) -> float:
    """Operations per second, training and validation, over all the time that has gone by (section 4.2)."""
    return operations / seconds


def error(accuracy: float, samples: int) -> float:
    """1 - accuracy, within [1 / (samples + 1), 1 - 1e-9], where its logarithm is finite and not 0."""
    return min(max(1 - accuracy, 1 / (samples + 1)), LARGEST_ERROR)


def regulated(error: float, rate: float) -> float:
    """OPS weighed by the quality reached: -ln(error) x OPS (section 4.3)."""
    return -log(error) * rate


def least_seconds(duration: float) -> float:
    """From when on the score counts: an hour, or half of a search that is shorter than two."""
    return min(OFFICIAL_SECONDS, duration / 2)


def highest(points: Sequence[Mapping[str, Any]], least: float) -> Mapping[str, Any]:
    """*The* score: the point with the highest regulated score of those at `least` seconds or later."""
    return max((point for point in points if point["seconds"] >= least), key=lambda point: point["regulated_score"])


def converged(points: Sequence[Mapping[str, Any]], window: float) -> bool:
    """Whether the regulated score has stayed within 1 % of its largest value for the last `window` seconds.

    False before anything was judged, and as long as the points do not reach back over the whole window.
    """
    if not points or points[0]["seconds"] > points[-1]["seconds"] - window:
        return False
    begin = max(index for index, point in enumerate(points) if point["seconds"] <= points[-1]["seconds"] - window)
    values = [point["regulated_score"] for point in points[begin:]]
    return bool(points[begin]["accuracy"] > 0 and max(values) - min(values) < SETTLED * max(values))
