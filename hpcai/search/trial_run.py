"""Run of one trial on a rank of its group: training for the planned epochs, or until the network stops improving."""

from collections.abc import Callable
from dataclasses import dataclass, field
from secrets import randbelow

from mpi4py import MPI
from msgspec import convert

from hpcai.clock import Phases
from hpcai.comm.shutdown import Shutdown
from hpcai.formulas.score import LARGEST
from hpcai.formulas.trial_schedule import improves
from hpcai.machine import device as devices
from hpcai.machine import memory
from hpcai.record.trial import CurveEntry, End, Trial
from hpcai.search.child_builder import Child
from hpcai.search.trial_plan import TrialPlan
from hpcai.train.callback import TrainingCallback
from hpcai.train.data_parallel import average_statistics, differs_from_others
from hpcai.train.loop import Training
from hpcai.train.state import CurvePoint, Progress

EVALUATED_TRIALS = 8  # of so many trials the evaluation of one is compared with the simple path, on average
EVALUATED = ("epoch", "loss", "validation_loss", "correct", "counted", "fingerprint")


@dataclass
class SearchHooks:
    """Callbacks of a trial into the search, on each rank."""

    now: Callable[[], float]  # seconds since the search began
    between_steps: Callable[[float], None]  # called with the share of the trial that is done
    should_stop: Callable[[], bool]  # whether the search's time is over
    after_validation: Callable[[], None]  # called by all ranks of the group
    deviation: Callable[[Training], float]  # of this rank's evaluation from the simple path / bound


class _TrialCallback(TrainingCallback):
    """Decides when a trial ends, and notes its curve."""

    def __init__(self, plan: TrialPlan, training: Training, hooks: SearchHooks) -> None:
        self.curve: list[CurveEntry] = []
        self.end: End = "planned"
        self._plan, self._training, self._hooks = plan, training, hooks
        self._best, self._best_epoch = float("inf"), 0
        self._samples = self._skipped = 0
        self._due = plan.epochs * training.shard.steps

    def on_batch_end(self) -> None:
        """Called after a step was launched: handles messages of the search."""
        self._hooks.between_steps(self._training.state.progress.steps / self._due)

    def should_stop(self) -> bool:
        """Whether the search's time is over."""
        return self._hooks.should_stop()

    def on_validation_end(self, progress: Progress) -> bool:
        """Note a validation; whether the trial ends with it. Collective over the group."""
        self.note(progress.curve[-1], progress)
        self._hooks.after_validation()
        loss = self.curve[-1].validation_loss
        if loss is None or self.curve[-1].loss is None:
            self.end = "diverged"
        elif improves(loss, self._best):
            self._best, self._best_epoch = loss, progress.epoch
        elif progress.epoch - self._best_epoch >= self._plan.patience:
            self.end = "patience"
        return progress.epoch >= self._plan.epochs or self.end != "planned"

    def note(self, evaluated: CurvePoint, progress: Progress) -> None:
        """Add an entry to the curve: a validation, and the samples trained since the entry before. Collective."""
        state, group = self._training.state, self._training.group
        skipped = int(group.model.allreduce(state.skipped_samples)) if state.scaler else 0
        samples = progress.samples * group.degree - skipped
        trained = {"samples": samples - self._samples, "skipped": skipped - self._skipped}
        self._samples, self._skipped = samples, skipped
        values = {name: getattr(evaluated, name) for name in EVALUATED}
        self.curve.append(convert({**values, "seconds": self._hooks.now(), **trained}, CurveEntry))

    def note_cut_epoch(self, progress: Progress) -> None:
        """Add an entry for the steps of an epoch that the end of the search cut, if there were any. Collective."""
        if progress.samples * self._training.group.degree > self._samples + self._skipped:
            self.note(CurvePoint(len(self.curve) + 1, 0.0, None, counted=0, fingerprint=0), progress)


@dataclass
class TrialOutcome:
    """What a rank knows of its group's trial after its end; the same on all ranks except for the seconds."""

    curve: list[CurveEntry]
    end: End
    seconds: dict[str, float]
    steps: int = 0
    executed_operations: int = 0
    differing_ranks: int = 0
    nbytes: int = 0
    planned_bytes: int = 0
    evaluation: float | None = None  # of this rank; None where it was not compared
    training: Training | None = field(default=None, repr=False)


def run_trial(
    plan: TrialPlan,
    training: Training,
    phases: Phases,
    shutdown: Shutdown,
    hooks: SearchHooks,
    report: Callable[[str], None],
) -> TrialOutcome:
    """Train until the trial ends; `report` is called with its progress. Collective over the group."""
    callback = _TrialCallback(plan, training, hooks)
    training.run(phases, shutdown, lambda progress: report(_progress(plan, progress)), callback)
    state, group = training.state, training.group
    progress, evaluation = state.progress, None
    if training.stopped:
        callback.end = "time"
        callback.note_cut_epoch(progress)
    else:
        training.checks.check_weights()
        evaluation = hooks.deviation(training) if _is_evaluated(plan, group.model) else None
    return TrialOutcome(
        callback.curve,
        callback.end,
        {name: phases.seconds.get(name, 0.0) for name in ("training", "validation", "warm_up")},
        steps=progress.steps,
        executed_operations=int(group.model.allreduce(progress.operations)),
        differing_ranks=_differing_ranks(training),
        nbytes=int(group.model.allreduce(devices.peak_memory(state.device) or memory.peak(), MPI.MAX)),
        evaluation=evaluation,
        training=training,
    )


def _is_evaluated(plan: TrialPlan, comm: MPI.Comm) -> bool:
    """Whether a trial is one of those drawn from the system's entropy; a group's first one always is. Collective."""
    return bool(comm.bcast(plan.round == 1 or randbelow(EVALUATED_TRIALS) == 0))


def _differing_ranks(training: Training) -> int:
    """Ranks of the group whose weights differ from those of its first rank."""
    group = training.group
    if training.stopped:  # before the validation, which averages the statistics of the ranks
        average_statistics(training.state.module, group)
    return int(group.model.allreduce(int(group.degree > 1 and differs_from_others(training.state.module, group))))


def _progress(plan: TrialPlan, progress: Progress) -> str:
    epoch = min(progress.epoch + 1, plan.epochs)
    return f"trial {plan.id}, round {plan.round}, epoch {epoch} of {plan.epochs}"


def trial_record(plan: TrialPlan, child: Child, outcome: TrialOutcome, started: float) -> Trial:
    """The record of a trial that has ended; `returned` is not known yet."""
    return Trial(
        id=plan.id,
        worker=plan.worker,
        round=plan.round,
        parent=plan.parent,
        operation=plan.morphisms[0].operation if plan.morphisms else "initial",
        morphisms=plan.morphisms,
        hyperparameters=plan.hyperparameters,
        given=plan.given,
        started=started,
        returned=0.0,
        planned_epochs=plan.epochs,
        steps=outcome.steps,
        executed_operations=outcome.executed_operations,
        curve=tuple(outcome.curve),
        training_seconds=outcome.seconds.get("training", 0.0),
        validation_seconds=outcome.seconds.get("validation", 0.0),
        warmup_seconds=outcome.seconds.get("warm_up", 0.0),
        deviation=min(child.deviation, LARGEST),
        nbytes=outcome.nbytes,
        planned_bytes=outcome.planned_bytes,
        end=outcome.end,
        parent_sha256=child.parent_sha256,
    )
