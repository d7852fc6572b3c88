"""MLPerf logs of a test: after the timed region the first rank of each group writes its own."""

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import torch
from mpi4py import MPI
from msgspec import convert

from hpcai import clock, mllog
from hpcai.comm import communicators
from hpcai.comm.clock_sync import common_clock
from hpcai.comm.grid import Group
from hpcai.data.image_dataset import Dataset
from hpcai.inputfile import Case
from hpcai.mllog.model import Model, Times, Trained
from hpcai.record.dataset import ImageValidation, Validation
from hpcai.search.child_builder import Child
from hpcai.search.trial_plan import TrialPlan
from hpcai.train.loop import Training
from hpcai.train.milestones import Milestones
from hpcai.train.recipe import Recipe
from hpcai.training.groups import ActiveGroup
from hpcai.workloads.registry import quality_of

Curve = tuple[ImageValidation, ...]  # of a trial


class ModelLog:
    """The log of this rank's group, if the input asks for one; made where the test begins.

    All methods but the marks are collective over the active ranks.
    """

    def __init__(self, case: Case, active: ActiveGroup, device: torch.device, folder: str) -> None:
        """folder: the result folder, as rank 0 names it."""
        self._case, self._folder, self._asked = case, Path(folder), case.mllog == "on"
        self._active, self._device = active, device
        self.marks = [clock.now()]
        self._trials: list[tuple[int, Milestones]] = []

    def mark(self) -> None:
        """The warm-up ends, the training begins, or it ends: to be called at each, in this order."""
        self.marks.append(clock.now())

    def noting(self, assemble: Callable[[TrialPlan, Child], Training]) -> Callable[[TrialPlan, Child], Training]:
        """`assemble`, which makes the training of a trial; its epochs are kept if a log is asked for."""

        def assembled(plan: TrialPlan, child: Child) -> Training:
            training = assemble(plan, child)
            self._trials.append((plan.id, training.milestones))
            return training

        return assembled if self._asked else assemble

    def write_trials(self, dataset: Dataset) -> None:
        """Write the log of a search, of all trials of this rank's group, as `write` does."""
        samples = len(dataset.train), len(dataset.validation)
        trainings = [
            logged(milestones, convert(milestones.curve, Curve, from_attributes=True), samples[1], number)
            for number, milestones in self._trials
        ]
        self.write(trainings, self._case.network, samples, self._case.target or dataset.target)

    def write(self, trainings: Sequence[Trained], network: str, samples: tuple[int, int], target: float) -> None:
        """Write the log, if one is asked for; where that is not possible, rank 0 says so.

        samples: drawn in an epoch, and of the validation set.
        """
        if not self._asked:
            return
        group = self._active.group
        model, shared = self._model(network, samples, target), common_clock(group.active)
        begun, *others = self.marks
        times = Times((begun, others[0]), (others[1], others[2]))

        def content(system: dict[str, str]) -> str:
            from hpcai.mllog.events import events
            from hpcai.mllog.writer import text

            return text(events(model, times, trainings, system), shared)

        if group.active.rank == 0:
            self._remove_lost()
        _tell(self._case, group, self._written(content) if group.leader else "")

    def _remove_lost(self) -> None:
        """Remove logs of groups that were lost after they had written one."""
        for group in self._case.lost:
            with suppress(OSError):
                mllog.log_path(self._folder, self._case.index, group).unlink()

    def _written(self, content: Callable[..., str]) -> str:
        """Write the log; why it could not be written, or empty."""
        from hpcai.mllog import writer

        path = mllog.log_path(self._folder, self._case.index, self._active.group.coordinates.group)
        try:
            writer.write(path, content(writer.system_description(self._folder)))
        except (OSError, ValueError, LookupError, TypeError) as error:  # of the folder, or of its system.json
            return f"{path}: {getattr(error, 'strerror', None) or error}"
        return ""

    def _model(self, network: str, samples: tuple[int, int], target: float) -> Model:
        case, group = self._case, self._active.group
        nodes, most = _nodes(self._active)
        return Model(
            section=case.workload,
            network=network,
            optimiser=case["OPTIMISER"],
            group=group.coordinates.group,
            ranks=group.degree,
            nodes=nodes,
            accelerators=most if self._device.type == "cuda" else 0,
            seed=case.seed,
            recipe=Recipe.of(case.settings),
            training_samples=samples[0],
            validation_samples=samples[1],
            of=quality_of(case.workload),
            target=target,
        )


def logged(
    milestones: Milestones,
    curve: Sequence[Validation],
    samples: int,
    trial: int | None = None,
    broken_off: bool = False,
) -> Trained:
    """A training as a log has it; `curve` are its validations on so many samples, as the workload records them."""
    qualities = {entry.epoch: entry.quality(samples) for entry in curve}
    return Trained(milestones.intervals, qualities, trial, broken_off)


def _nodes(active: ActiveGroup) -> tuple[int, int]:
    """Nodes of this rank's group, and its ranks on the node with most. Collective over the group."""
    model = active.group.model
    here = communicators.split(model, active.node, model.rank)
    nodes, most = model.allreduce(int(here.rank == 0)), model.allreduce(here.size, MPI.MAX)
    here.Free()
    return nodes, most


def _tell(case: Case, group: Group, reason: str) -> None:
    """Print how many logs could not be written, and one reason. Collective over the active ranks."""
    missing, one = group.active.allreduce(int(bool(reason))), group.active.allreduce(reason, MPI.MAX)
    if missing and group.active.rank == 0:
        logs = f"{missing} of {group.groups} MLPerf logs could not be written, among them {one}"
        print(f"hpcai: test {case.index}: {logs}", file=sys.stderr, flush=True)
