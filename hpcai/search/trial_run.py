"""One trial on a rank of its group: a network is trained as planned, or until it no longer improves."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mpi4py import MPI

from hpcai.clock import Phases
from hpcai.comm.shutdown import Shutdown
from hpcai.formulas.score import LARGEST
from hpcai.formulas.trial_schedule import improves
from hpcai.machine import device as devices
from hpcai.machine import memory
from hpcai.search.child_builder import Child
from hpcai.search.trial_plan import Plan
from hpcai.train.guide import Guide
from hpcai.train.loop import Training
from hpcai.train.parallel import differs_from_leader
from hpcai.train.state import Progress

Json = dict[str, Any]
JUDGED = ("epoch", "loss", "validation_loss", "correct", "counted", "fingerprint")


@dataclass
class Clockwork:
    """What a trial has to do with the rest of the search; of each rank."""

    now: Callable[[], float]  # seconds since the search began
    attend: Callable[[float], None]  # called between steps, with the share of the trial that is done
    overdue: Callable[[], bool]
    agree: Callable[[], None]  # called after each validation, by all ranks of the group


class _TrialGuide(Guide):
    """Watches over one trial: what it has reached, and when."""

    def __init__(self, plan: Plan, training: Training, clockwork: Clockwork) -> None:
        self.curve: list[Json] = []
        self.reason = "planned"
        self._plan, self._training, self._clockwork = plan, training, clockwork
        self._best, self._best_epoch = float("inf"), 0
        self._samples = self._skipped = 0
        self._due = plan.epochs * training.shard.steps

    def between(self) -> None:
        """A step has been given to the device: others are heard."""
        self._clockwork.attend(self._training.state.progress.steps / self._due)

    def overdue(self) -> bool:
        """Whether the search's time is over."""
        return self._clockwork.overdue()

    def enough(self, progress: Progress) -> bool:
        """Note a validation; whether the trial ends with it. Collective over the group."""
        self.note(progress.curve[-1], progress)
        self._clockwork.agree()
        loss = self.curve[-1]["validation_loss"]
        if loss is None or self.curve[-1]["loss"] is None:
            self.reason = "diverged"
        elif improves(loss, self._best):
            self._best, self._best_epoch = loss, progress.epoch
        elif progress.epoch - self._best_epoch >= self._plan.patience:
            self.reason = "patience"
        return progress.epoch >= self._plan.epochs or self.reason != "planned"

    def note(self, judged: Json, progress: Progress) -> None:
        """An entry of the curve: what was judged, and what was trained since the entry before. Collective."""
        state, group = self._training.state, self._training.group
        skipped = int(group.model.allreduce(state.skipped_samples)) if state.scaler else 0
        samples = progress.samples * group.degree - skipped
        trained = {"samples": samples - self._samples, "skipped": skipped - self._skipped}
        self._samples, self._skipped = samples, skipped
        self.curve.append({**{name: judged[name] for name in JUDGED}, "seconds": self._clockwork.now(), **trained})


@dataclass
class Outcome:
    """What a rank knows of its group's trial when that has ended; the same on all ranks but for the seconds."""

    curve: list[Json]
    end: str
    seconds: dict[str, float]
    steps: int = 0
    executed_operations: int = 0
    differing_ranks: int = 0
    nbytes: int = 0
    planned_bytes: int = 0
    training: Training | None = field(default=None, repr=False)


def run(
    plan: Plan,
    training: Training,
    phases: Phases,
    shutdown: Shutdown,
    clockwork: Clockwork,
    tell: Callable[[str], None],
) -> Outcome:
    """Train until the trial ends. Collective over the group."""
    guide = _TrialGuide(plan, training, clockwork)
    training.run(phases, shutdown, lambda progress: tell(_told(plan, progress)), guide)
    state, group = training.state, training.group
    progress = state.progress
    if training.stopped:
        guide.reason = "time"
        _note_rest(guide, progress)
    else:
        training.proof.check_weights()
    return Outcome(
        guide.curve,
        guide.reason,
        {name: phases.seconds.get(name, 0.0) for name in ("training", "validation", "warm_up")},
        steps=progress.steps,
        executed_operations=int(group.model.allreduce(progress.operations)),
        differing_ranks=_differing(training),
        nbytes=int(group.model.allreduce(devices.peak_memory(state.device) or memory.peak(), MPI.MAX)),
        training=training,
    )


def _differing(training: Training) -> int:
    """Ranks of the group whose weights are not those of the leader."""
    group = training.group
    return int(group.model.allreduce(int(group.degree > 1 and differs_from_leader(training.state.module, group))))


def _note_rest(guide: _TrialGuide, progress: Progress) -> None:
    """Steps of the epoch that the end of the search has cut."""
    nothing = {"loss": None, "validation_loss": None, "correct": None, "counted": 0, "fingerprint": 0}
    if progress.samples * guide._training.group.degree > guide._samples + guide._skipped:
        guide.note({"epoch": len(guide.curve) + 1, **nothing}, progress)


def _told(plan: Plan, progress: Progress) -> str:
    epoch = min(progress.epoch + 1, plan.epochs)
    return f"trial {plan.id}, round {plan.round}, epoch {epoch} of {plan.epochs}"


def record(plan: Plan, child: Child, outcome: Outcome, started: float) -> Json:
    """The trial as the history has it; `returned` is not known yet."""
    return {
        "id": plan.id,
        "worker": plan.worker,
        "round": plan.round,
        "parent": plan.parent,
        "operation": plan.morphisms[0]["operation"] if plan.morphisms else "initial",
        "morphisms": plan.morphisms,
        "hyperparameters": {"batch": plan.batch, "kernel": plan.kernel},
        "given": plan.given,
        "started": started,
        "returned": 0.0,
        "planned_epochs": plan.epochs,
        "steps": outcome.steps,
        "executed_operations": outcome.executed_operations,
        "curve": outcome.curve,
        "training_seconds": outcome.seconds.get("training", 0.0),
        "validation_seconds": outcome.seconds.get("validation", 0.0),
        "warmup_seconds": outcome.seconds.get("warm_up", 0.0),
        "deviation": min(child.deviation, LARGEST),
        "nbytes": outcome.nbytes,
        "planned_bytes": outcome.planned_bytes,
        "end": outcome.end,
    }
