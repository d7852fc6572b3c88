"""`python -P -m hpcai.ranking PATH... --baseline PATH`: results of one system compared with a baseline."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from hpcai.errors import InputError
from hpcai.machine import program_source
from hpcai.ranking.acceptance.compare import Baseline, Line, baseline_of, compared
from hpcai.ranking.acceptance.metrics import FAILED, PASSED, Measured, differing, measured
from hpcai.ranking.acceptance.rules import SHIPPED, rules_of
from hpcai.ranking.acceptance.text import closing, csv_text, differences, table
from hpcai.ranking.cache import Cache
from hpcai.ranking.collect import collect
from hpcai.ranking.examine import JSON, told, verified
from hpcai.ranking.pool import examined
from hpcai.ranking.submission import MOST_REASON, Apart
from hpcai.report.text import counted
from hpcai.results.cells import cell

MEDIAN = "median"  # in place of a path: the median of the compared results
LEAST_OF_MEDIAN = 3  # results, so that it is not half-way between two
ACCEPTED, NOT_ACCEPTED = 0, 1


class Acceptance:
    """Results of paths, compared with the baseline of another path or with their own median."""

    def __init__(self, paths: Sequence[str], baseline: str, cache: Cache | None, jobs: int) -> None:
        self._cache, self._jobs = cache, jobs
        self.found, self.apart = self._measured(paths)
        if not self.found:
            reasons = _reasons(self.apart) or "no result.json"
            raise InputError(f"nothing to compare: {reasons}; allowed: verified results")
        others, unfit = (self.found, []) if baseline == MEDIAN else self._measured([baseline])
        if baseline == MEDIAN and len(self.found) < LEAST_OF_MEDIAN:
            few = f"the median of {counted(len(self.found), 'result')}"
            raise InputError(f"no baseline: {few}; allowed: {LEAST_OF_MEDIAN} results or more, or a path")
        if unfit or not others:
            missing = _reasons(unfit) or f"{baseline} has no result.json"
            raise InputError(f"no baseline: {missing}; allowed: verified results")
        self.baseline = baseline_of(others)

    def _measured(self, paths: Sequence[str]) -> tuple[list[Measured], list[Apart]]:
        """What the results of paths measured, each run once, and what cannot be compared."""
        collected = collect(paths)
        source = program_source.digest()
        outcomes = examined(collected.files, partial(_examine, cache=self._cache, source=source), self._jobs)
        found: dict[str, Measured] = {}
        apart = [*collected.apart]
        for each in outcomes:
            if isinstance(each, Apart):
                apart.append(each)
            else:
                found.setdefault(each.fingerprint, each)
        return [*found.values()], apart

    def lines(self, rules: Path) -> list[Line]:
        """The lines of all results that belong to the baseline's system; the others are put apart."""
        chosen = rules_of(rules)
        different = {each.path: differing(each.machine, self.baseline.machine) for each in self.found}
        self.apart += [Apart(path, reason) for path, reason in different.items() if reason]
        self.found = [each for each in self.found if not different[each.path]]
        lines = {each.path: compared(each, self.baseline, chosen) for each in self.found}
        self.apart += [Apart(path, "no rule compares any of its values") for path, each in lines.items() if not each]
        self.found = [each for each in self.found if lines[each.path]]
        return [line for each in lines.values() for line in each]


def _reasons(apart: Sequence[Apart]) -> str:
    return "; ".join(f"{cell(each.path)}: {cell(each.reason, MOST_REASON)}" for each in apart)


def run(paths: Sequence[str], baseline: str, rules: str | None, cache: Cache | None, jobs: int) -> tuple[str, str, int]:
    """Text, comma-separated values and exit code: 0 if every result was compared and PASSED, else 1."""
    asked = Path(rules) if rules else SHIPPED
    acceptance = Acceptance(paths, baseline, cache, jobs)
    lines = acceptance.lines(asked)
    text = [
        *_head(baseline, acceptance.baseline, asked),
        *differences(acceptance.found, acceptance.baseline),
        "",
        *table(lines),
        "",
        *closing(acceptance.found, lines, acceptance.apart),
    ]
    return "\n".join(text) + "\n", csv_text(lines), _code(acceptance, lines)


def _head(baseline: str, found: Baseline, rules: Path) -> list[str]:
    of = "these results" if baseline == MEDIAN else baseline
    return [f"Baseline: {of}, {counted(found.results, 'result')}", f"Rules   : {rules.name}"]


def _code(acceptance: Acceptance, lines: Sequence[Line]) -> int:
    verdicts = {line.verdict for line in lines}
    return NOT_ACCEPTED if FAILED in verdicts or acceptance.apart or PASSED not in verdicts else ACCEPTED


def _examine(path: Path, cache: Cache | None, source: str) -> Measured | Apart:
    if path.suffix != JSON:
        return Apart(str(path), "a report alone is not compared")
    return told(path, lambda: measured(path, verified(path, cache, source).result))
