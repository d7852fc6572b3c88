"""Checkpoints of a model's training: where it pauses each rank writes its own, and a resumed run goes on from them.

Replicas write only what differs from the first one's: statistics, feedback, generators and what they measured. The
first one sends them the rest.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from mpi4py import MPI
from msgspec import ValidationError, convert, to_builtins

from hpcai import clock, tensor_tree
from hpcai.checkpoint.generations import Content, Generations
from hpcai.checkpoint.paths import folder_of
from hpcai.checkpoint.shared_tensors import broadcast_tensors
from hpcai.comm import survival
from hpcai.comm.grid import Group
from hpcai.errors import DataError
from hpcai.inputfile import Case
from hpcai.record.checkpoints import Checkpoints
from hpcai.record.plain import plain
from hpcai.record.preflight import KernelChoice
from hpcai.train.callback import TrainingCallback
from hpcai.train.loop import Training
from hpcai.train.milestones import Interval
from hpcai.train.training_checks import KeptChecks
from hpcai.training.times import PhaseAccount

HOST = torch.device("cpu")
SHARE = 100  # the seconds between checkpoints are this many times what one costs, at least: 1 %
SHARED, OWN, STEPS = "shared", "own", "step_seconds"  # tensors: the same on all replicas, this rank's, and its times
PARAMETERS, OPTIMISER = "parameters", "optimiser"


@dataclass(frozen=True)
class Kept:
    """What a checkpoint of a rank has beside tensors. Clocks are those of the process that wrote it.

    case: which training this is. utc: seconds since 1970. clock, marks, intervals: readings of hpcai.clock. wall: of
    the test, by the second clock. parts: of epochs, in which steps were measured. choice: of KERNELS auto, as recorded.
    """

    case: str
    utc: float
    clock: float
    wall: float
    between: float
    phases: dict[str, float]
    checks: KeptChecks
    intervals: Sequence[Interval]
    marks: Sequence[float]
    pauses: int
    resumed: int
    parts: int
    choice: Any = None


class Checkpointing(TrainingCallback):
    """The checkpoints of this rank in a case; pauses the training to write them.

    All methods but `should_pause` are collective over the group. folder: of the result. marks: of the model's log.
    """

    def __init__(
        self, case: Case, group: Group, folder: str, phases: clock.Phases, account: PhaseAccount, marks: list[float]
    ) -> None:
        self._case, self._group, self._phases, self._account, self._marks = case, group, phases, account, marks
        own = folder_of(Path(folder), case.index) / f"group-{group.coordinates.group}"
        self._files = Generations(own, f"rank-{group.coordinates.member}")
        survival.defer(self._files.wait)  # before another attempt at the test reads them
        self._seconds = float(case.checkpoint)
        self.pauses = self._seconds > 0
        self._begun_utc = _utc() - account.wall
        self._last, self._cost = clock.now(), 0.0
        self._pauses = self._resumed = 0
        self._asked = 0.0
        self._found = self._agreed()
        self.choice: KernelChoice | None = self._found and _converted(self._found[1].choice, KernelChoice | None)
        self._training: Training | None = None

    @property
    def earlier(self) -> float:
        """Seconds since the timed region began in a process that was killed; 0 where none was."""
        if self._found is None:
            return 0.0
        _, kept = self._found
        return max(0.0, _utc() - kept.utc + kept.clock - kept.marks[-1])

    def _agreed(self) -> tuple[Content, Kept] | None:
        """The newest checkpoint that all ranks of the group have."""
        model = self._group.model
        newest = self._files.newest()
        number = int(model.allreduce(newest[0] if newest else -1, MPI.MIN))
        content = newest[1] if newest and newest[0] == number else self._files.read(number)
        missing = int(model.allreduce(int(content is None), MPI.MAX))
        if content is None or missing:
            if newest:
                print("hpcai: the ranks of a group have no common checkpoint: it begins anew", file=sys.stderr)
            self._files.remove_after(-1)
            return None
        self._files.remove_after(number)
        kept: Kept = _converted(content[1]["kept"], Kept)
        if kept.case != _identity(self._case, self._group):
            raise DataError(f"a checkpoint of test {self._case.index} is of another training: {kept.case}")
        return content, kept

    def should_pause(self) -> bool:
        """Whether it is time for a checkpoint."""
        due = self.pauses and clock.now() - self._last >= max(self._seconds, SHARE * self._cost)
        self._asked = clock.now() if due else 0.0
        return due

    def on_pause(self) -> None:
        """Copy the state to the host; a thread writes it."""
        if not self.pauses:
            return
        begun = self._asked or clock.now()  # the steps until then are checked first
        self._pauses += 1
        assert self._training is not None, "a training is watched before it runs"
        with self._phases.measure("checkpoint"):
            self._files.wait()
            self._group.model.Barrier()  # all ranks have the last one before any begins to remove the one before
            tensors, forms = self._copied(self._training)
        meta = {"forms": forms, "kept": to_builtins(self._kept(self._training))}
        self._files.write(self._training.state.progress.steps, tensors, meta)
        self._last = clock.now()
        self._cost = self._last - begun

    def measured(self) -> Checkpoints | None:
        """The checkpoints of all models, the same on every active rank; None without. Collective over these."""
        if not self.pauses:
            return None
        own = [self._pauses * self._group.leader, self._resumed * self._group.leader]
        pauses, resumed = (int(self._group.active.allreduce(count)) for count in own)
        return Checkpoints(pauses=pauses, resumed=resumed)

    def close(self) -> None:
        """The test has ended, or stops: wait until the last checkpoint is on the disk."""
        self._files.close()

    def watch(self, training: Training) -> None:
        """The training that is to be kept, warmed up; go on from its checkpoint, if there is one."""
        self._training = training
        if self._found is not None:
            content, kept = self._found
            self._restore(training, content, kept)
            self._found = None
        self._last = clock.now()

    def _copied(self, training: Training) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        state: Any = training.state.snapshot(HOST)
        names = {name for name, _ in training.state.module.named_parameters()}
        module = state.pop("module")
        shared = {
            PARAMETERS: {name: value for name, value in module.items() if name in names},
            OPTIMISER: state.pop("optimiser"),
        }
        own = {**state, "module": {name: value for name, value in module.items() if name not in names}}
        own[STEPS] = torch.from_numpy(training.step_times.seconds)
        first = self._group.replicas.rank == 0
        parts = {SHARED: shared, OWN: own} if first else {OWN: own}
        taken = {name: tensor_tree.separate(value, name) for name, value in parts.items()}
        return {k: v for tensors, _ in taken.values() for k, v in tensors.items()}, {
            name: form for name, (_, form) in taken.items()
        }

    def _kept(self, training: Training) -> Kept:
        return Kept(
            case=_identity(self._case, self._group),
            utc=_utc(),
            clock=clock.now(),
            wall=self._account.wall,
            between=self._phases.between,
            phases=dict(self._phases.seconds),
            checks=training.checks.kept(),
            intervals=training.milestones.intervals,
            marks=tuple(self._marks),
            pauses=self._pauses,
            resumed=self._resumed,
            parts=training.step_times.parts,
            choice=plain(self.choice) if self.choice else None,
        )

    def _restore(self, training: Training, content: Content, kept: Kept) -> None:
        tensors, meta = content
        replicas = self._group.replicas
        of_first = {name: value for name, value in tensors.items() if name.startswith(f"{SHARED}/")}
        form = replicas.bcast(meta["forms"].get(SHARED))
        shared = tensor_tree.join(broadcast_tensors(replicas, of_first), form)
        own = tensor_tree.join(tensors, meta["forms"][OWN])
        training.step_times.restore(own.pop(STEPS).numpy(), kept.parts)
        own["module"] = {**shared[PARAMETERS], **own["module"]}
        own["optimiser"] = shared[OPTIMISER]
        training.state.restore(own)
        training.checks.restore(kept.checks)
        training.checks.record_checksums()
        self._pauses, self._resumed = kept.pauses, kept.resumed + 1
        self._restore_times(training, kept)

    def _restore_times(self, training: Training, kept: Kept) -> None:
        """The time since the checkpoint was written, in which nothing was credited, is a phase of its own."""
        interrupted = max(0.0, self._begun_utc - kept.utc)
        seconds = self._phases.seconds
        for name, value in {**kept.phases, "interrupted": interrupted}.items():
            seconds[name] = seconds.get(name, 0.0) + value
        self._phases.between += kept.between
        self._account.add(kept.wall)
        shift = clock.now() - kept.clock - (_utc() - kept.utc)
        self._marks[:] = [mark + shift for mark in kept.marks]
        training.milestones.restore(kept.intervals, training.state.progress.curve, shift)


def _utc() -> float:
    """Seconds since 1970."""
    return clock.utc_instant().timestamp()


def _identity(case: Case, group: Group) -> str:
    """What must be the same for a training to go on: settings, grid and the rank's place in it."""
    place = [group.planned, group.degree, group.coordinates.group, group.coordinates.member]
    return json.dumps([case.index, case.workload, place, dict(case.settings)], sort_keys=True)


def _converted(value: Any, kind: Any) -> Any:
    try:
        return convert(value, kind)
    except ValidationError as error:
        raise DataError(f"a checkpoint has another content: {error}") from None
