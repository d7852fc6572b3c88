"""Totals over the trials of a group: steps, samples, operations, seconds and findings."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from hpcai.comm.grid import Group
from hpcai.record.trial import Trial
from hpcai.search.child_builder import Child
from hpcai.search.trial_run import TrialOutcome
from hpcai.train.content_findings import ContentFindings
from hpcai.train.state import add_measured
from hpcai.train.training_checks import Findings

PHASES = ("training", "validation", "warm_up")


@dataclass
class TrialFindings:
    """What was found and measured in trials beside their records: by one rank, or by all ranks of a group."""

    differing_ranks: int = 0
    evaluated: int = 0  # trials whose evaluation was compared with the simple path
    evaluation: float = 0.0  # the largest deviation of these
    findings: Findings = field(default_factory=Findings)
    contents: ContentFindings = field(default_factory=ContentFindings)
    loading: dict[str, Any] = field(default_factory=dict)  # int or float, as it is measured
    sent: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, outcome: TrialOutcome) -> "TrialFindings":
        """Those of a trial on this rank."""
        compared = outcome.evaluation is not None
        found = cls(outcome.differing_ranks, int(compared), outcome.evaluation or 0.0)
        if outcome.training:
            checks, progress = outcome.training.checks, outcome.training.state.progress
            found.findings.add(checks.findings)
            found.contents.add(checks.contents)
            add_measured(found.loading, {}, progress.loading)
            add_measured(found.sent, {}, progress.sent)
        return found

    def add(self, others: "TrialFindings") -> "TrialFindings":
        """Add those of another trial or rank; these."""
        self.differing_ranks += others.differing_ranks
        self.evaluated += others.evaluated
        self.evaluation = max(self.evaluation, others.evaluation)
        self.findings.add(others.findings)
        self.contents.add(others.contents)
        add_measured(self.loading, {}, others.loading)
        add_measured(self.sent, {}, others.sent)
        return self

    def of_group(self, group: Group) -> "TrialFindings":
        """Those of all ranks of a group, on its first one; what all ranks know counts once. Collective over it."""
        if group.degree == 1:
            return self
        own = self if group.leader else self._own_part()
        found: TrialFindings | None = group.model.reduce(own, TrialFindings.add)
        return found or own

    def _own_part(self) -> "TrialFindings":
        """Without what the first rank of the group counts for all."""
        findings = replace(self.findings, replayed=0, wrong_epochs=0)
        contents = replace(self.contents, steps=0, validations=0, recounted=0, miscounted=0)
        return replace(self, differing_ranks=0, evaluated=0, findings=findings, contents=contents)


@dataclass
class GroupTotals:
    """Totals over the trials of a group; the same on all its ranks except for what was found, and seconds.

    Of trials of earlier jobs the first rank has what all ranks of the group found. That of the first group has the
    totals of lost groups as well; lost_seconds: of each of them; lost_and_retired: how many had retired before.
    """

    found: TrialFindings = field(default_factory=TrialFindings)
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PHASES, 0.0))
    steps: int = 0
    samples: int = 0
    skipped_samples: int = 0
    executed_operations: int = 0
    deviation: float = 0.0
    last_return: float = 0.0
    lost_seconds: list[dict[str, float]] = field(default_factory=list)
    lost_and_retired: int = 0

    def add(self, child: Child, outcome: TrialOutcome) -> TrialFindings:
        """Add a trial that has ended; what this rank found in it."""
        found = TrialFindings.of(outcome)
        self.found.add(found)
        self.steps += outcome.steps
        self.samples += sum(entry.samples for entry in outcome.curve)
        self.skipped_samples += sum(entry.skipped for entry in outcome.curve)
        self.executed_operations += outcome.executed_operations
        self.deviation = max(self.deviation, child.deviation)
        for name in self.seconds:
            self.seconds[name] += outcome.seconds.get(name, 0.0)
        return found

    def restore(self, trials: Iterable[Trial], found: Iterable[TrialFindings]) -> None:
        """Add trials of earlier jobs, and what the group found in them, which its first rank knows."""
        for trial in trials:
            self.steps += trial.steps
            self.samples += trial.samples
            self.skipped_samples += trial.skipped
            self.executed_operations += trial.executed_operations
            self.deviation = max(self.deviation, trial.deviation)
            self.last_return = max(self.last_return, trial.returned)
            seconds = trial.training_seconds, trial.validation_seconds, trial.warmup_seconds
            for name, value in zip(PHASES, seconds, strict=True):
                self.seconds[name] += value
        for each in found:
            self.found.add(each)

    def adopt(self, trials: Iterable[Trial], found: Iterable[TrialFindings]) -> None:
        """Add the trials of a lost group, whose seconds are kept apart."""
        own, self.seconds = self.seconds, dict.fromkeys(PHASES, 0.0)
        self.restore(trials := [*trials], found)
        self.lost_and_retired += any(trial.end == "lost" for trial in trials)
        self.lost_seconds.append(self.seconds)
        self.seconds = own
