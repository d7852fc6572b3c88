"""Totals over the trials of a group: steps, samples, operations, seconds and findings."""

from dataclasses import dataclass, field

from hpcai.search.child_builder import Child
from hpcai.search.trial_run import TrialOutcome
from hpcai.train.content_findings import ContentFindings
from hpcai.train.state import add_measured
from hpcai.train.training_checks import Findings

PHASES = ("training", "validation", "warm_up")


@dataclass
class GroupTotals:
    """Totals over the trials of a group; the same on all its ranks except for findings, seconds, loading and sent."""

    differing_ranks: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PHASES, 0.0))
    findings: Findings = field(default_factory=Findings)
    contents: ContentFindings = field(default_factory=ContentFindings)
    loading: dict[str, float] = field(default_factory=dict)
    sent: dict[str, float] = field(default_factory=dict)
    steps: int = 0
    samples: int = 0
    skipped_samples: int = 0
    executed_operations: int = 0
    deviation: float = 0.0
    evaluated: int = 0  # trials whose evaluation was compared with the simple path
    evaluation: float = 0.0  # the largest deviation of these
    last_return: float = 0.0

    def add(self, child: Child, outcome: TrialOutcome) -> None:
        """Add a trial that has ended."""
        self.differing_ranks += outcome.differing_ranks
        self.steps += outcome.steps
        self.samples += sum(entry.samples for entry in outcome.curve)
        self.skipped_samples += sum(entry.skipped for entry in outcome.curve)
        self.executed_operations += outcome.executed_operations
        self.deviation = max(self.deviation, child.deviation)
        if outcome.evaluation is not None:
            self.evaluated += 1
            self.evaluation = max(self.evaluation, outcome.evaluation)
        for name in self.seconds:
            self.seconds[name] += outcome.seconds.get(name, 0.0)
        if outcome.training:
            self.findings.add(outcome.training.checks.findings)
            self.contents.add(outcome.training.checks.contents)
            add_measured(self.loading, {}, outcome.training.state.progress.loading)
            add_measured(self.sent, {}, outcome.training.state.progress.sent)
