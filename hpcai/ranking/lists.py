"""The lists: lines that may be compared, in their order; the same run counts once."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from hpcai.formulas.eligibility import SEVERITY
from hpcai.ranking.submission import LITERATURE, REPORTED, VERIFIED, Apart, Line, ListKey, Submission
from hpcai.workloads import registry

ORIGINS = (VERIFIED, REPORTED, LITERATURE)


@dataclass(frozen=True)
class Ranked:
    """A list: its lines in their order, the best first."""

    key: ListKey
    lines: tuple[Line, ...]


def ranked(submissions: Iterable[Submission]) -> list[Ranked]:
    """All lists, official ones first."""
    grouped: dict[ListKey, list[Line]] = {}
    for submission in submissions:
        for line in submission.lines:
            grouped.setdefault(line.key, []).append(line)
    return [Ranked(key, tuple(sorted(grouped[key], key=_order))) for key in sorted(grouped, key=_place)]


def _order(line: Line) -> tuple[float, float, str, str]:
    """The larger score first; of equal ones the shorter Time."""
    return -line.score, line.seconds, line.site, line.source


def _place(key: ListKey) -> tuple[int, int, int, str]:
    sections = [workload.name for workload in registry.workloads() if workload.digit]
    section = sections.index(key.section) if key.section in sections else len(sections)
    status = SEVERITY.index(key.status) if key.status in SEVERITY else len(SEVERITY)
    return ORIGINS.index(key.origin), section, status, key.name


def without_repeated(outcomes: Iterable[Submission | Apart]) -> Iterator[Submission | Apart]:
    """The outcomes, each run once: a verified result goes before a report of the same run, else the first counts."""
    outcomes = [*outcomes]
    kept: dict[str, Submission] = {}
    for found in sorted(_submissions(outcomes), key=lambda each: each.origin != VERIFIED):
        one = next((kept[name] for name in found.names if name in kept), found)
        kept |= {name: one for name in found.names if name not in kept}
    for each in outcomes:
        first = kept.get(each.fingerprint) if isinstance(each, Submission) else None
        yield each if first in (None, each) else Apart(each.path, f"the same run as {first.path}, counts once")


def _submissions(outcomes: Sequence[Submission | Apart]) -> list[Submission]:
    return [each for each in outcomes if isinstance(each, Submission)]
