"""Image classification by an ensemble of P models, each trained by Q ranks (HPC AI500 V3; P = 1 is V2)."""

from collections.abc import Callable
from dataclasses import asdict

import torch

from hpcai import clock
from hpcai.comm.ending import Ending
from hpcai.comm.grid import Group
from hpcai.comm.world import World
from hpcai.data import catalog
from hpcai.data.dataset import description
from hpcai.data.stage import Staged
from hpcai.inputfile import Case
from hpcai.machine import memory
from hpcai.train import bagging
from hpcai.train.state import Progress
from hpcai.workloads import seconds
from hpcai.workloads.assembly import assembled, same_data
from hpcai.workloads.grouped import Measurement, Stopped, in_groups
from hpcai.workloads.prepare import network
from hpcai.workloads.residuals import checks_before
from hpcai.workloads.totals import members, so_far, totals


def run(
    case: Case, seed: int, world: World, device: torch.device, tell: Callable[[str, float], None], ending: Ending
) -> Measurement | Stopped | None:
    """Measure one case; None on ranks that stay idle, which sleep until it is over. Collective over all ranks.

    When `ending` says so, it stops at the next step and returns what was measured until then. `tell` hears how far
    this rank's model has come, in words, and the share of the training that is done.
    """

    def measure(group: Group, copy: Staged | None) -> Measurement | Stopped:
        return _measure(_Stages(case, seed, group, device, world.host, copy), tell, ending)

    return in_groups(case, seed, world, device, ending, measure)


def _measure(stages: "_Stages", tell: Callable[[str, float], None], ending: Ending) -> Measurement | Stopped:
    """The stages one after the other, unless the run is to end between two of them."""
    found: Measurement = {}
    for where in (stages.preparation, stages.training, stages.ensemble):
        found |= where(tell, ending)
        if ending.agreed(stages.group.active):
            return Stopped({"where": where.__name__, **stages.so_far()})
    return found | stages.accounts(found["validation_miscounted"], ending)


class _Stages:
    """The stages of a case on this rank; each returns what it has measured. Collective over all active ranks."""

    def __init__(
        self, case: Case, seed: int, group: Group, device: torch.device, host: str, copy: Staged | None
    ) -> None:
        self.case, self.seed, self.group, self.device, self.host = case, seed, group, device, host
        self.phases = clock.Phases(device)
        if copy is not None:
            self.phases.seconds["staging"] = copy.measured["seconds"]
        with self.phases.measure("set-up"):
            opened = copy and copy.dataset
            self.dataset = same_data(opened or catalog.open_for(case.data_settings), group.active)
            self.target = case["TARGET"] or self.dataset.target
            self.graph = network(case, self.dataset)
            self.trained = assembled(case, seed, group, device, self.dataset, self.graph)

    def preparation(self, tell: Callable[[str, float], None], ending: Ending) -> Measurement:
        """Everything before the clock: the collectives, the provider and the precision are tried, and warmed up."""
        checked = checks_before(self.case, self.seed, self.group, self.device, self.graph, self.phases)
        with self.phases.measure("warm-up"):
            warmup_steps = self.trained.warm_up()
        return {
            "dataset": description(self.dataset),
            "target": self.target,
            "steps_per_epoch": self.trained.shard.steps,
            "sharding": self.trained.shard.rule,
            "warmup_steps": warmup_steps,
            **checked,
        }

    def training(self, tell: Callable[[str, float], None], ending: Ending) -> Measurement:
        """The timed region, and the validations between."""
        if self.case.index == 1:
            self.phases.seconds["start-up"] = clock.since_process_start()
        epochs, steps = self.case["EPOCHS"], self.trained.shard.steps
        self.trained.run(self.phases, ending, lambda progress: tell(*_progress(progress, epochs, steps)))
        return {}

    def ensemble(self, tell: Callable[[str, float], None], ending: Ending) -> Measurement:
        """The models together; means nothing if the run is to end."""
        trained = self.trained
        with self.phases.measure("ensemble"):
            verdicts = bagging.judge(
                trained.state.module, self.group, trained.validation, trained.loader, trained.sampler, ending
            )
        return asdict(verdicts)

    def accounts(self, miscounted: int, ending: Ending) -> Measurement:
        """What all ranks have done in a case that has run to its end; `miscounted` were samples by all models."""
        trained, comm, samples = self.trained, self.group.active, len(self.dataset.validation)
        memory.give_back()  # the profiler's books would come to lie between a step's large blocks
        with self.phases.measure("profile"):
            operations = seconds.profiled(trained, self.group, ending)
        return {
            **totals(trained, self.group, samples, miscounted),
            **members(trained, self.group, samples, self.target),
            "audit": trained.proof.measured(),
            "execution": trained.execution.measured(comm),
            "curve": comm.bcast(trained.state.progress.curve),
            "operation_seconds": operations,
            **seconds.all_ranks(trained, self.phases, self.host, comm),
        }

    def so_far(self) -> Measurement:
        """What has been done when the run is to end."""
        return {"dataset": description(self.dataset), **so_far(self.trained, self.group)}


def _progress(progress: Progress, epochs: int, steps: int) -> tuple[str, float]:
    """How far the first model has come: in words, and as a share of its steps."""
    judged = f", {progress.curve[-1]['correct']} judged right" if progress.curve else ""
    return f"epoch {min(progress.epoch + 1, epochs)} of {epochs}{judged}", progress.steps / (epochs * steps)
