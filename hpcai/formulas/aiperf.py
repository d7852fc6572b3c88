"""Score of a search over time: OPS and the regulated score (AIPerf: Ren et al., 2020, arXiv:2008.07141, section 4).

Pure functions of the trials' records, so that they also serve a search that is still running.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log
from typing import Annotated

from hpcai import opcount
from hpcai.networks.graph import Graph
from hpcai.record.record import Count, Record, about
from hpcai.record.trial import CurveEntry

RULE = "aiperf"  # operation counting rule of OPS
OFFICIAL_SECONDS = 3600.0  # an official search takes at least an hour
POINTS = 50  # of a series whose interval is not given
LONGEST_INTERVAL = 360.0  # seconds
MOST_POINTS = 10_000
LARGEST_ERROR = 1 - 1e-9
CONVERGED = 0.01  # relative change below which a score counts as converged


@dataclass(frozen=True)
class Work:
    """Operations of one sample by rule `aiperf`: in training (forward and backward), and in validation (forward)."""

    training: int
    validation: int


@dataclass(frozen=True)
class Credit:
    """What an entry of a curve adds to the score: operations, and its validation accuracy (0 without a validation)."""

    seconds: float
    training: int
    validation: int
    accuracy: float


class ScorePoint(Record):
    """The score of a search at one time."""

    seconds: Annotated[float, about("time since the search began", unit="s")]
    operations: Annotated[Count, about("operations credited until then, rule aiperf", unit="FLOP")]
    ops: Annotated[float, about("operations / seconds", unit="FLOP/s")]
    accuracy: Annotated[float, about("best validation accuracy until then")]
    error: Annotated[float, about("1 - accuracy, within [1 / (validation samples + 1), 1 - 1e-9]")]
    regulated_score: Annotated[float, about("-ln(error) x ops", unit="FLOP/s")]
    trials: Annotated[Count, about("trials returned without failing until then")]


def work(graph: Graph) -> Work:
    """Operations of a sample in a network."""
    count = opcount.count(graph, RULE)
    return Work(count.total, count.forward)


def credits(curve: Sequence[CurveEntry], work: Work) -> Iterator[Credit]:
    """Contributions of a trial to the score, entry by entry of its curve: samples x operations of one sample."""
    for entry in curve:
        training, validation = entry.samples * work.training, entry.counted * work.validation
        yield Credit(entry.seconds, training, validation, entry.accuracy or 0.0)


def interval(wanted: float, duration: float) -> float:
    """Seconds between points: KEY INTERVAL; if 0, a 50th of the search, at most 360 s. At most 10,000 points."""
    return max(wanted or min(duration / POINTS, LONGEST_INTERVAL), duration / MOST_POINTS)


def series(
    credits: Sequence[Credit], returned: Sequence[float], duration: float, step: float, samples: int, first: int = 1
) -> list[ScorePoint]:
    """The score after every `step` seconds and at the end of `duration`; `samples` are those of a validation.

    `returned` are the times at which trials returned. Points before number `first` are left out.
    """
    waiting, times = sorted(credits, key=lambda credit: credit.seconds), sorted(returned)
    operations, best, points, used, ended = 0, 0.0, list[ScorePoint](), 0, 0
    for seconds in _times(duration, step, first):
        while used < len(waiting) and waiting[used].seconds <= seconds:
            operations += waiting[used].training + waiting[used].validation
            best = max(best, waiting[used].accuracy)
            used += 1
        while ended < len(times) and times[ended] <= seconds:
            ended += 1
        points.append(_point(seconds, operations, best, samples, ended))
    return points


def _times(duration: float, step: float, first: int) -> Iterator[float]:
    count = int(duration / step * (1 - 1e-9))
    yield from (step * number for number in range(first, count + 1))
    yield duration


def _point(seconds: float, operations: int, best: float, samples: int, trials: int) -> ScorePoint:
    wrong, rate = error(best, samples), ops(operations, seconds)
    return ScorePoint(
        seconds=seconds,
        operations=operations,
        ops=rate,
        accuracy=best,
        error=wrong,
        regulated_score=regulated(wrong, rate),
        trials=trials,
    )


def ops(operations: int, seconds: float) -> float:
    """Operations per second, training and validation, over the whole time so far (section 4.2)."""
    return operations / seconds


def error(accuracy: float, samples: int) -> float:
    """1 - accuracy, within [1 / (samples + 1), 1 - 1e-9], where its logarithm is finite and not 0."""
    return min(max(1 - accuracy, 1 / (samples + 1)), LARGEST_ERROR)


def regulated(error: float, rate: float) -> float:
    """Regulated score: OPS weighted by the quality, -ln(error) x OPS (section 4.3)."""
    return -log(error) * rate


def least_seconds(duration: float) -> float:
    """The time from which the score counts: an hour, or half of a search shorter than two hours."""
    return min(OFFICIAL_SECONDS, duration / 2)


def highest_ops(points: Sequence[ScorePoint], least: float) -> ScorePoint:
    """AIPerf's major score: the point with the highest OPS of those at `least` seconds or later (section 4.2)."""
    return max((point for point in points if point.seconds >= least), key=lambda point: point.ops)


def highest(points: Sequence[ScorePoint], least: float) -> ScorePoint:
    """The complementary score: the point with the highest regulated score of those at `least` seconds or later."""
    return max((point for point in points if point.seconds >= least), key=lambda point: point.regulated_score)


def converged(points: Sequence[ScorePoint], window: float) -> bool:
    """Whether the regulated score has stayed within 1 % of its largest value for the last `window` seconds.

    False before the first validation, and as long as the points do not cover the whole window.
    """
    if not points or points[0].seconds > points[-1].seconds - window:
        return False
    begin = max(index for index, point in enumerate(points) if point.seconds <= points[-1].seconds - window)
    scores = [point.regulated_score for point in points[begin:]]
    return points[begin].accuracy > 0 and max(scores) - min(scores) < CONVERGED * max(scores)
