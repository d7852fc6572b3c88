"""Lines of the report that only weather has: precision by overlap and class, and what reading the fields took."""

from collections.abc import Iterator
from typing import Any

from hpcai.data.dataset_paths import GENERATED
from hpcai.data.weather.layout import names
from hpcai.report.text import score

Json = dict[str, Any]

MADE, UNREAD = "n/a, generated", "n/a, nothing read"
SHARES = {"loading_share": "loading", "reading_share": "reading", "decompressing_share": "decompressing"}  # of threads


def lines(test: Json) -> Iterator[str]:
    """Nothing of other workloads."""
    if test["workload"] == "weather":
        yield from _precision(test)
        yield from _loading(test["scores"]["loading"], MADE if test["settings"]["DATASET"] == GENERATED else UNREAD)


def _precision(test: Json) -> Iterator[str]:
    scores = test["scores"]
    for overlap, mean in scores["mean_average_precision"].items():
        yield score(f"mAP at an overlap of {overlap}", mean)
    for name, precision in zip(names(len(scores["class_precision"])), scores["class_precision"], strict=True):
        yield score(f"AP at 0.5, {name}", precision, "n/a, no box")


def _loading(found: Json, otherwise: str) -> Iterator[str]:
    rate = found["read_rate"]
    yield score("fields read in training, GB/s", None if rate is None else rate / 1e9, otherwise)
    for name, words in SHARES.items():
        yield score(f"share of training, {words}", found[name], otherwise)
