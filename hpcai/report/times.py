"""Lines of the report that tell where the time went."""

from collections.abc import Iterator
from typing import Any

from hpcai.report.text import free, score

Json = dict[str, Any]

STEP = {"mean": "mean", "median": "median", "p95": "95th percentile"}


def lines(test: Json) -> Iterator[str]:
    """Step times, the ranks' busy times, and shares of the training, of all phases and of the operators."""
    raw, scores = test["raw"], test["scores"]
    for name, words in STEP.items():
        yield score(f"step, {words}, s", raw["step_seconds"][name])
    for name in ("min", "mean", "max"):
        yield score(f"busy time of the ranks, {name}, s", raw["busy_seconds"][name])
    yield score("busy time of the ranks, (max - min) / mean", scores["busy_spread"])
    for part, share in scores["training_shares"].items():
        yield score(f"share of training, {part}", share)
    for name, seconds in test["phases"].items():
        yield score(f"phase {name}, s", seconds)
    for name, share in scores["phase_shares"].items():
        yield score(f"share of the phases, {name}", share)
    for kind in raw["operation_seconds"]:
        shares = scores["operation_shares"]
        yield score(f"share of the operators, {kind}", shares and shares[kind], "n/a, not told")


def note(test: Json) -> str:
    """Which rank is the slowest, and whose the step times are."""
    raw, busy = test["raw"], test["raw"]["busy_seconds"]
    return (
        f"Slowest : rank {busy['slowest_rank']} on {free(busy['slowest_host'])}, busy for {busy['max']:.3f} of "
        f"{raw['phases']['training']:.3f} s; step times: {raw['step_seconds']['count']} steps of the rank with the "
        "largest median"
    )
