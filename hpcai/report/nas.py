"""What is printed of a search: HPL's header and row, checks, scores and notes; the score over time; the trials."""

from collections.abc import Iterator, Sequence
from typing import Any

from hpcai.report import memory, precision, telemetry, trials
from hpcai.report.block import check_lines, data_notes, head, kernels_line, network_note, proof_notes, staging_line
from hpcai.report.text import counted, printed, score, with_reasons

Json = dict[str, Any]

MOST_LINES = 60  # of the score over time
HEAD = f"{'Time':>14} {'GOPS':>16} {'Accuracy':>10} {'Error':>10} {'Score':>16} {'Trials':>8}"
TITLE = (
    "Score over time: Time in s, GOPS in 10^9 operations/s (rule aiperf), the best accuracy so far, 1 - it, Score = "
)
DEVIATION = "Differs : from AIPerf, whose master does nothing but hand out work: the coordinator's rank trains as well"


def block(test: Json) -> str:
    """One search: HPL's header and row, a line per check and score, notes, then two tables."""
    lines = [*check_lines(test), *_score_lines(test), *_notes(test), ""]
    return head(test) + printed([*lines, *_series(test["scores"]), "", *trials.table(test), ""])


def _score_lines(test: Json) -> Iterator[str]:
    scores, raw = test["scores"], test["raw"]
    yield score("OPS, 10^9 per second", scores["ops"] / 1e9)
    yield score("regulated score, highest, 10^9", scores["regulated_score"] / 1e9)
    yield score("regulated score, highest, after s", scores["regulated_seconds"])
    yield score("regulated score, counts from s", scores["least_seconds"])
    yield score("regulated score, last, 10^9", scores["regulated_last"] / 1e9)
    yield score("operations of training, rule aiperf, 10^9", scores["training_operations"] / 1e9)
    yield score("operations of validation, rule aiperf, 10^9", scores["validation_operations"] / 1e9)
    yield score("quality of the best trial (top-1)", scores["quality"])
    yield score("target", scores["target"])
    yield score("time to quality, s", scores["time_to_quality"], "not reached")
    spent = scores["operations_to_quality"]
    yield score("operations to quality, 10^9", None if spent is None else spent / 1e9, "not reached")
    yield score("parallel efficiency", scores["efficiency"])
    rate = scores["training_rate"]
    yield score("GFLOP/s while training", None if rate is None else rate / 1e9, "n/a, no training")
    yield score("images/s", scores["images_per_second"])
    for part, share in scores["shares"].items():
        yield score(f"share of the search, {part}", share)
    for name in ("min", "max"):
        yield score(f"idle time of a group, {name}, s", raw["group_seconds"]["idle"][name])
    yield from _answers(test)
    yield score("speed of the precision in a probe, of fp32", scores["precision_speed"], "n/a, fp32")
    yield from kernels_line(scores)
    yield from memory.lines(test)
    yield from telemetry.lines(test)
    yield from staging_line(scores)
    for name, seconds in test["phases"].items():
        yield score(f"phase {name}, s", seconds)


def _answers(test: Json) -> Iterator[str]:
    """How long groups waited for the coordinator, and what proposals cost."""
    asked, made = test["raw"]["coordinator"], test["raw"]["proposals"]
    yield score("coordinator, share of the search it was busy", test["scores"]["coordinator_share"])
    yield score("coordinator, mean wait for an answer, s", asked["wait_mean"])
    yield score("coordinator, longest wait for an answer, s", asked["wait_max"])
    yield score("proposal of a network, mean, s", made["seconds_mean"])
    yield score("proposal of a network, longest, s", made["seconds_max"])


def _notes(test: Json) -> Iterator[str]:
    raw, scores = test["raw"], test["scores"]
    yield from data_notes(raw)
    yield network_note(test, "a search that began with ")
    ends = ", ".join(f"{count} {end}" for end, count in scores["ends"].items() if count)
    yield (
        f"Trials  : {raw['granted']} granted, by their end: {ends}; {counted(raw['retired_groups'], 'group')} retired; "
        f"the search ended by {raw['ended_by']} after {raw['seconds']:.2f} s"
    )
    made, asked = raw["proposals"], raw["coordinator"]["requests"]
    yield (
        f"Search  : {counted(made['count'], 'proposal')}, {raw['duplicates']} refused as known, "
        f"{made['rejected']} as beyond the limits; {counted(asked, 'request')} to the coordinator, "
        f"backend {raw['backend']}"
    )
    yield precision.note(test)
    yield DEVIATION
    yield from proof_notes(raw)
    yield telemetry.note(test)
    yield with_reasons(f"Status  : {test['status']}", test["reasons"])


def _series(scores: Json) -> Iterator[str]:
    """A line per interval, in the columns of AIPerf's own report; of very many only every n-th, and the last."""
    yield f"{TITLE}-ln(Error) x GOPS"
    yield HEAD
    for point in _some(scores["series"]):
        yield (
            f"{point['seconds']:14.2f} {point['ops'] / 1e9:16.4f} {point['accuracy']:10.6f} {point['error']:10.6f} "
            f"{point['regulated_score'] / 1e9:16.4f} {point['trials']:8d}"
        )


def _some(points: Sequence[Json]) -> list[Json]:
    stride = -(-len(points) // MOST_LINES)
    return [point for place, point in enumerate(points, start=1) if place % stride == 0 or place == len(points)]
