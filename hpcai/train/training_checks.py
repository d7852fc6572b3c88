"""Checks beside a training: its samples, audited steps, fresh gradients, clocks, and weights that only steps change.

In the timed region a rank only copies and counts; everything else happens between epochs, outside the training clock.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from mpi4py import MPI

from hpcai.clock import now, synchronise
from hpcai.comm.grid import Group
from hpcai.data.philox import Integers
from hpcai.formulas import clocks
from hpcai.formulas.score import LARGEST
from hpcai.record.preflight import Worst as WorstRecord
from hpcai.record.training import Audits, Replay
from hpcai.second_clock import TimedRegion
from hpcai.train.accounting import SampleAccount
from hpcai.train.content_findings import ContentFindings
from hpcai.train.judged_weights import JudgedWeights, checksum_of_all, checksums, repeated_models
from hpcai.train.recipe import Recipe
from hpcai.train.replay import Audited, AuditedSteps
from hpcai.train.state import TrainingState, nothing
from hpcai.train.step_elements import StepElements
from hpcai.train.update_check import Worst

COUNTS = ("stale", "still", "outside", "others")  # findings that are summed over the ranks
LARGEST_OF_RANKS = ("clocks", "inside_share", "outside_share")


@dataclass
class Findings:
    """Results of the checks of one rank's training so far."""

    replayed: int = 0  # steps
    deviation: Worst = (0.0, "")
    lost: Worst = (0.0, "")
    wrong_epochs: int = 0  # epochs with wrong samples; the same on all ranks of the group
    changed: int = 0  # how often weights or statistics changed outside of steps
    stale: int = 0  # gradients of tensors that are missing or those of an earlier step
    still: int = 0  # tensors that did not move in a step that had to move them
    outside: int = 0  # backward passes and updates outside of the timed region, or missing in it
    others: int = 0  # evaluations of weights other than the last ones
    clocks: float = 0.0  # deviation of the two clocks in the timed region, and of its steps / what is allowed
    inside_share: float = 0.0  # of the training time: copies of audited steps
    outside_share: float = 0.0  # replays and other checks after epochs / training time

    def add(self, others: "Findings") -> None:
        """Add the findings of another training of this rank."""
        for name, value in vars(others).items():
            own = getattr(self, name)
            setattr(self, name, own + value if isinstance(value, int) else max(own, value))


@dataclass(frozen=True)
class KeptChecks:
    """What a checkpoint keeps of the checks of one rank's training, in the order of their definition."""

    findings: Findings
    contents: ContentFindings
    entropy: int
    done: Sequence[Audited]
    drawn: tuple[int, tuple[int, ...]]
    inside: float
    outside: float
    epoch_seconds: float


class TrainingChecks:
    """The checks of one rank's training. Only `note`, `before`, `after` and the region run inside the timed region."""

    def __init__(self, state: TrainingState, recipe: Recipe, audited: AuditedSteps, account: SampleAccount, steps: int):
        """steps: of an epoch."""
        self._state, self._recipe, self._account, self._steps = state, recipe, account, steps
        self.audited = audited
        self._elements = StepElements(state, recipe.rule, steps)
        self.region = TimedRegion(partial(synchronise, state.device))
        self._judged = JudgedWeights(state.module)
        self.judging, self.judge = self._judged.judging, self._judged.judge
        self._checksums: torch.Tensor | None = None
        self._start, self._begun, self._epoch_seconds = 0, 0.0, 0.0
        self._before = 0.0, 0  # training seconds and steps before the training begins or resumes
        self.findings, self.contents = Findings(), ContentFindings()
        self.before, self.after = audited.before, audited.after

    def begin_warm_up(self) -> None:
        """The warm-up begins: weights are recorded, and places of elements chosen in its steps."""
        self.record_checksums()
        self._state.updated = self._elements.place

    def end_warm_up(self) -> None:
        """The warm-up has ended and must have left the weights as they were."""
        self._state.updated = nothing
        self.check_weights()
        self.record_checksums()

    def start(self) -> None:
        """The training begins or resumes, after the warm-up."""
        self._state.backward_begins, self._state.updated = self.region.backward, self._updated
        self._before = self._state.progress.training_seconds, self._state.progress.steps
        self.check_weights()
        self.record_checksums()

    def _updated(self) -> None:
        self.region.update()
        self._elements.note()

    def begin(self) -> None:
        """An epoch begins or resumes. Collective over the group."""
        progress = self._state.progress
        self._start, self._begun = progress.step, progress.training_seconds
        self.audited.begin(progress.training_seconds, self._epoch_seconds)
        self._account.begin()
        self.audited.content.begin(self._start)
        self._elements.begin()
        self.check_weights()

    def note(self, x: torch.Tensor, y: torch.Tensor, indices: Integers) -> None:
        """A batch arrives at the network."""
        self._account.note(indices)
        self.audited.content.note(x, y, indices)

    def close(self) -> None:
        """The epoch has ended or is cut: check samples, audited steps and gradients; record checksums. Collective."""
        progress, found, begun = self._state.progress, self.findings, now()
        self._epoch_seconds = progress.training_seconds - self._begun
        found.wrong_epochs += self._account.differs(progress.epoch, self._start, progress.step)
        self.audited.content.close(progress.epoch, progress.step, self.audited.objective)
        for where, comparison in self.audited.replayed():
            for measure in ("deviation", "lost"):
                value, what = getattr(comparison, measure)
                setattr(found, measure, max(getattr(found, measure), (value, f"{where}: {what}")))
            found.replayed += 1
        stale, still = self._elements.judged(progress.epoch * self._steps + self._start, self._rate)
        found.stale, found.still = found.stale + stale, found.still + still
        self.record_checksums()
        self.audited.outside += now() - begun

    def _rate(self, step: int) -> float:
        return self._recipe.rate(step, self._steps)

    def finish(self) -> None:
        """The training has ended or is broken off: compare its clocks, and count its steps."""
        self._state.backward_begins = self._state.updated = nothing
        self.settle()

    def compare_steps(self, seconds: float, parts: int) -> None:
        """Compare the seconds of all steps, measured in so many parts of epochs, with the training time."""
        found, whole = self.findings, self._state.progress.training_seconds
        found.clocks = max(found.clocks, clocks.beside_steps(seconds, whole, parts))

    def settle(self) -> None:
        """Add to the findings what the region tells of the training since it began, resumed or was settled."""
        progress, found, region, (seconds, steps) = self._state.progress, self.findings, self.region, self._before
        found.outside += region.outside + abs(region.steps - (progress.steps - steps))
        found.others = self._judged.others
        deviation = clocks.deviation(progress.training_seconds - seconds, region.seconds, region.parts)
        found.clocks = max(found.clocks, deviation)
        region.seconds, region.parts, region.steps, region.outside = 0.0, 0, 0, 0
        self._before = progress.training_seconds, progress.steps
        found.inside_share = self.audited.inside / progress.training_seconds
        found.outside_share = self.audited.outside / progress.training_seconds

    def record_checksums(self) -> None:
        """Record checksums over the bits of weights, running statistics and optimiser state."""
        self._checksums = checksums(self._state.module, self._state.optimiser)
        self._judged.record(self._checksums)

    def kept(self) -> KeptChecks:
        """What a checkpoint keeps of the checks, between two parts of the training."""
        audited = self.audited
        own = audited.entropy, audited.done, audited.drawn, audited.inside, audited.outside
        return KeptChecks(self.findings, self.contents, *own, self._epoch_seconds)

    def restore(self, kept: KeptChecks) -> None:
        """Go on from the checks of a checkpoint."""
        audited = self.audited
        vars(self.findings).update(vars(kept.findings))
        self.contents.restore(kept.contents)
        audited.entropy, audited.done, audited.drawn = kept.entropy, list(kept.done), kept.drawn
        audited.inside, audited.outside, self._epoch_seconds = kept.inside, kept.outside, kept.epoch_seconds
        self._judged.others = kept.findings.others

    def check_weights(self) -> None:
        """Count a change if the bits of weights, running statistics or optimiser state differ from the checksums."""
        if self._checksums is not None:
            found = checksums(self._state.module, self._state.optimiser)
            self.findings.changed += not torch.equal(self._checksums, found)

    def measured(self) -> Replay:
        """Findings of all models' trainings, the same on every active rank. Collective over these."""
        self.check_weights()
        self.findings.others = self._judged.others
        group = self.audited.group
        first = Audits(entropy=f"{self.audited.entropy:016x}", steps=tuple(self.audited.done))
        last = self._judged.last
        of_models = {"weights": checksum_of_all(last, group), "repeated": repeated_models(last, group)}
        return measured(self.findings, group, audits=group.active.bcast(first), **of_models)


def measured(findings: Findings, group: Group, **of_models: Any) -> Replay:
    """The findings of all active ranks, the same on each. Collective over these.

    of_models: what searches have not, the audits of the first model, and what all last weights say.
    """
    active, speaks = group.active, group.leader
    deviation, lost = (active.allreduce(worst, MPI.MAX) for worst in (findings.deviation, findings.lost))
    return Replay(
        steps=active.allreduce(findings.replayed * speaks),
        wrong_epochs=active.allreduce(findings.wrong_epochs * speaks),
        changed_ranks=active.allreduce(findings.changed),
        deviation=WorstRecord(value=deviation[0], where=deviation[1]),
        lost=WorstRecord(value=lost[0], where=lost[1]),
        **{name: active.allreduce(getattr(findings, name)) for name in COUNTS},
        **{name: min(active.allreduce(getattr(findings, name), MPI.MAX), LARGEST) for name in LARGEST_OF_RANKS},
        **of_models,
    )
