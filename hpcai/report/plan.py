"""What `--check` prints: each test of an input, the memory it needs per rank and the time it will take.

Its lines are no results, and no parser of results takes them for some: between the integers and the decimals stands a
word, and T/V is left out.
"""

from collections.abc import Iterator, Sequence
from typing import Any

Json = dict[str, Any]

GIB = 2**30
HEADER = (
    f"{'Test':>5} {'NB':>6} {'P':>6} {'Q':>6} {'Idle ranks':>11}  {'Network':<10} {'Steps':>9} "
    f"{'GiB per rank':>13} {'Seconds':>12}"
)
EXPLANATION = (
    "GiB per rank: weights, gradients, optimiser, activations, buckets, one batch; framework and data set come on top.",
    "Seconds: training and validation, from one forward pass on this machine; communication and start-up come on top.",
)


def text(name: str, ranks: int, planned: Sequence[Json]) -> str:
    """The plan as it is printed; `planned` has one estimate per test (hpcai.workloads.prepare.plan)."""
    return "\n".join(_lines(name, ranks, planned))


def _lines(name: str, ranks: int, planned: Sequence[Json]) -> Iterator[str]:
    yield f"{name}: {len(planned)} tests, planned for {ranks} ranks; nothing was run"
    yield HEADER
    yield "-" * len(HEADER)
    for index, test in enumerate(planned, start=1):
        yield _row(index, test, ranks)
    yield f"{'in all':<8} {sum(test['seconds'] for test in planned):>{len(HEADER) - 9}.1f}"
    yield from EXPLANATION


def _row(index: int, test: Json, ranks: int) -> str:
    settings = test["settings"]
    groups, degree = settings["GROUPS"], settings["DEGREE"]
    return (
        f"{index:>5} {settings['BATCH']:>6} {groups:>6} {degree:>6} {ranks - groups * degree:>11}  "
        f"{settings['NETWORK']:<10} {test['steps']:>9} {test['nbytes'] / GIB:>13.3f} {test['seconds']:>12.1f}"
    )
