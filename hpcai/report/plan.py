"""What `--check` prints: each test of an input, the memory it needs per rank and the time it will take."""

from collections.abc import Iterator, Sequence
from typing import Any

from hpcai.result import tv

Json = dict[str, Any]

GIB = 2**30
HEADER = f"{'T/V':<8} {'Network':<10} {'NB':>6} {'P':>6} {'Q':>6} {'Steps':>9} {'GiB per rank':>13} {'Seconds':>12}"
EXPLANATION = (
    "GiB per rank: weights, gradients, optimiser, activations, buckets, one batch; framework and data set come on top.",
    "Seconds: training and validation, from one forward pass on this machine; communication and start-up come on top.",
)


def text(name: str, ranks: int, planned: Sequence[Json]) -> str:
    """The plan as it is printed; `planned` has one estimate per test (hpcai.workloads.ensemble.estimate)."""
    return "\n".join(_lines(name, ranks, planned))


def _lines(name: str, ranks: int, planned: Sequence[Json]) -> Iterator[str]:
    yield f"{name}: {len(planned)} tests, planned for {ranks} ranks; nothing was run"
    yield HEADER
    yield "-" * len(HEADER)
    for test in planned:
        yield _row(test["settings"], test)
    yield f"{'in all':<8} {sum(test['seconds'] for test in planned):>{len(HEADER) - 9}.1f}"
    yield from EXPLANATION


def _row(settings: Json, test: Json) -> str:
    grid = f"{settings['BATCH']:>6} {settings['GROUPS']:>6} {settings['DEGREE']:>6}"
    return (
        f"{tv(settings):<8} {settings['NETWORK']:<10} {grid} {test['steps']:>9} "
        f"{test['nbytes'] / GIB:>13.3f} {test['seconds']:>12.1f}"
    )
