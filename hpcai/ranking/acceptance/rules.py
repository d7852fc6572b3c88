"""Rules of an acceptance: which metrics are compared with the baseline, and how far from it they may be."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from hpcai.errors import InputError
from hpcai.ranking.acceptance.metrics import CEILINGS, TESTS, names

SHIPPED = Path(__file__).with_name("acceptance.toml")
BOUNDS = ("least", "most")


@dataclass(frozen=True)
class Rule:
    """What a metric of a group may be, as a share of its baseline; None: no bound."""

    group: str
    metric: str
    least: float | None
    most: float | None

    def passes(self, value: float, baseline: float) -> bool:
        """Whether a value is within the bounds."""
        above = self.least is None or value >= self.least * baseline
        return above and (self.most is None or value <= self.most * baseline)

    def __str__(self) -> str:
        bounds = {"least": self.least, "most": self.most}
        return ", ".join(f"{name} {bound:g}" for name, bound in bounds.items() if bound is not None)


def rules_of(path: Path = SHIPPED) -> list[Rule]:
    """The rules of a file; InputError that names what is wrong in it."""
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"rules {path} cannot be read: {error.strerror}") from None
    except ValueError as error:  # of TOML, or of UTF-8
        raise InputError(f"rules {path}: {error}") from None
    found = [rule for group, metrics in document.items() for rule in _group(path, group, metrics)]
    if not found:
        raise InputError(f"rules {path}: no rule; allowed: [{TESTS}] and [{CEILINGS}] with metrics")
    return found


def _group(path: Path, group: str, metrics: object) -> Iterator[Rule]:
    if group not in (TESTS, CEILINGS) or not isinstance(metrics, dict):
        raise InputError(f"rules {path}: {group!r}; allowed: [{TESTS}] and [{CEILINGS}]")
    allowed = names(group)
    for metric, bounds in metrics.items():
        if metric not in allowed:
            raise InputError(f"rules {path}, [{group}]: no metric {metric!r}; allowed: {', '.join(allowed)}")
        yield _rule(f"rules {path}, [{group}] {metric}", group, metric, bounds)


def _rule(where: str, group: str, metric: str, bounds: object) -> Rule:
    if not isinstance(bounds, dict) or not bounds or {*bounds} - {*BOUNDS}:
        raise InputError(f"{where}: {bounds!r}; allowed: a table of least, most or both")
    for name, bound in bounds.items():
        if isinstance(bound, bool) or not isinstance(bound, int | float) or not isfinite(bound) or bound < 0:
            raise InputError(f"{where}, {name}: {bound!r}; allowed: a share of the baseline, 0 or more")
    return Rule(group, metric, bounds.get("least"), bounds.get("most"))
