"""The table of repetitions: how far runs with different seeds lie apart."""

from collections.abc import Iterator, Sequence
from typing import Any

from hpcai.machine.affinity import ranges

Json = dict[str, Any]

ROWS = (
    ("GFLOP/s", "flops", 1e-9),
    ("Valid FLOPS in GFLOP/s", "valid_flops", 1e-9),
    ("GOPS", "ops", 1e-9),
    ("regulated score, 10^9", "regulated_score", 1e-9),
    ("quality", "quality", 1.0),
    ("epochs to quality", "epochs_to_quality", 1.0),
    ("10^9 op. to quality", "operations_to_quality", 1e-9),
)
HEAD = f"{'':>24} {'runs':>6} {'mean':>16} {'median':>16} {'min':>16} {'max':>16} {'CV %':>10}"


def table(repeatability: Sequence[Json]) -> Iterator[str]:
    """Lines for each test that was repeated; none if none was."""
    if repeatability:
        yield "Repetitions with different seeds (CV: sample standard deviation / mean)"
    for entry in repeatability:
        yield f"Rows {ranges(entry['tests'])}:"
        yield HEAD
        for title, name, unit in ROWS:
            if name in entry:
                yield _row(title, entry[name], unit)
        yield ""


def _row(title: str, spread: Json | None, unit: float) -> str:
    if spread is None:
        return f"{title:>24} {'not reached':>23}"
    values = " ".join(f"{spread[name] * unit:16.7f}" for name in ("mean", "median", "min", "max"))
    variation = "n/a" if spread["cv"] is None else f"{100 * spread['cv']:.4f}"
    return f"{title:>24} {spread['count']:>6} {values} {variation:>10}"
