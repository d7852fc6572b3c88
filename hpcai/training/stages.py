"""The stages of a case in which P models are trained and judged together, whatever they learn."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

import torch

from hpcai import clock
from hpcai.comm.grid import Group
from hpcai.comm.shutdown import Shutdown
from hpcai.comm.world import World
from hpcai.data.staging import StagedDataset
from hpcai.inputfile import Case
from hpcai.machine import memory
from hpcai.networks.graph import Graph
from hpcai.preflight.case_checks import network
from hpcai.preflight.kernel_choice import choose
from hpcai.preflight.layer_products import Product
from hpcai.preflight.residuals import checks_before
from hpcai.preflight.vendor_comparison import beside_the_vendor
from hpcai.result.choice import AUTO
from hpcai.train.loop import Training
from hpcai.train.providers import take_over
from hpcai.train.state import Progress
from hpcai.training import times
from hpcai.training.assembly import same_data
from hpcai.training.groups import Measurement, Stopped, in_groups
from hpcai.training.totals import members, so_far, totals

Tell = Callable[[str, float], None]


class Discipline(Protocol):
    """What the models of a workload learn, and how it is judged. All but `told` is collective over the active ranks."""

    def open(self, case: Case, group: Group) -> Any:
        """The data, the same on every rank."""

    def describe(self, dataset: Any) -> Measurement:
        """What a result says of its data."""

    def assemble(
        self, case: Case, seed: int, group: Group, device: torch.device, dataset: Any, graph: Graph
    ) -> Training:
        """The training of this rank's model, ready to warm up."""

    def judge(self, trained: Training, group: Group, shutdown: Shutdown) -> Measurement:
        """The models together, `validation_miscounted` among the numbers; anything if the run is to end."""

    def told(self, entry: Measurement) -> str:
        """An entry of a validation curve, in a few words."""


def run(
    discipline: Discipline, case: Case, seed: int, world: World, device: torch.device, tell: Tell, shutdown: Shutdown
) -> Measurement | Stopped | None:
    """Measure one case; None on ranks that stay idle, which sleep until it is over. Collective over all ranks.

    When `ending` says so, it stops at the next step and returns what was measured until then. `tell` hears how far
    this rank's model has come, in words, and the share of the training that is done.
    """

    def measure(group: Group, copy: StagedDataset | None) -> Measurement | Stopped:
        return _measure(_Stages(discipline, case, seed, group, device, world.host, copy), tell, shutdown)

    return in_groups(case, seed, world, device, shutdown, measure)


def _measure(stages: "_Stages", tell: Tell, shutdown: Shutdown) -> Measurement | Stopped:
    """The stages one after the other, unless the run is to end between two of them."""
    found: Measurement = {}
    for where in (stages.preparation, stages.training, stages.ensemble):
        found |= where(tell, shutdown)
        if shutdown.agreed(stages.group.active):
            return Stopped({"where": where.__name__, **stages.so_far()})
    return found | stages.accounts(found["validation_miscounted"], shutdown)


class _Stages:
    """The stages of a case on this rank; each returns what it has measured. Collective over all active ranks."""

    def __init__(
        self,
        discipline: Discipline,
        case: Case,
        seed: int,
        group: Group,
        device: torch.device,
        host: str,
        copy: StagedDataset | None,
    ) -> None:
        self.discipline = discipline
        self.case, self.seed, self.group, self.device, self.host = case, seed, group, device, host
        self.phases = clock.Phases(device)
        if copy is not None:
            self.phases.seconds["staging"] = copy.measured.seconds
        with self.phases.measure("set-up"):
            opened = copy and copy.dataset
            self.dataset: Any = same_data(opened or discipline.open(case, group), group.active)
            self.target = case["TARGET"] or self.dataset.target
            self.graph = network(case, self.dataset)
            self.trained = discipline.assemble(case, seed, group, device, self.dataset, self.graph)

    def preparation(self, tell: Tell, shutdown: Shutdown) -> Measurement:
        """Everything before the clock: the collectives, the provider and the precision are tried, and warmed up."""
        chosen, ours = self._choice() if self.case["KERNELS"] == AUTO else ({}, None)
        found = checks_before(self.case, self.seed, self.group, self.device, self.graph, self.phases, ours)
        checked = chosen | found
        active, trained = self.group.active, self.trained
        checked |= beside_the_vendor(self.case, self.graph, lambda: trained, active, self.device, self.phases)
        with self.phases.measure("warm-up"):
            warmup_steps = self.trained.warm_up()
        return {
            "dataset": self.discipline.describe(self.dataset),
            "target": self.target,
            "steps_per_epoch": self.trained.shard.steps,
            "sharding": self.trained.shard.rule,
            "warmup_steps": warmup_steps,
            **checked,
        }

    def _choice(self) -> tuple[Measurement, Mapping[Product, Collection[str]]]:
        """Have the faster kernels compute each layer from now on; what was timed, and which directions are ours."""
        module: Any = self.trained.state.module
        with self.phases.measure("choice"):
            found = choose(self.trained, self.group.active, self.device)
            take_over(module, found.choice)
        memory.give_back()
        return {"choice": found.measured}, found.products

    def training(self, tell: Tell, shutdown: Shutdown) -> Measurement:
        """The timed region, and the validations between."""
        if self.case.index == 1:
            self.phases.seconds["start-up"] = clock.since_process_start()
        self.trained.run(self.phases, shutdown, lambda progress: tell(*self._progress(progress)))
        return {}

    def ensemble(self, tell: Tell, shutdown: Shutdown) -> Measurement:
        """The models together; means nothing if the run is to end."""
        with self.phases.measure("ensemble"):
            return self.discipline.judge(self.trained, self.group, shutdown)

    def accounts(self, miscounted: int, shutdown: Shutdown) -> Measurement:
        """What all ranks have done in a case that has run to its end; `miscounted` were samples by all models."""
        trained, comm, samples = self.trained, self.group.active, len(self.dataset.validation)
        memory.give_back()  # the profiler's books would come to lie between a step's large blocks
        with self.phases.measure("profile"):
            operations = times.profiled(trained, self.group, shutdown)
        return {
            **totals(trained, self.group, samples, miscounted),
            **members(trained, self.group, samples, self.target),
            "audit": trained.proof.measured(),
            "execution": trained.execution.measured(comm),
            "curve": comm.bcast(trained.state.progress.curve),
            "operation_seconds": operations,
            **times.all_ranks(trained, self.phases, self.host, comm),
        }

    def so_far(self) -> Measurement:
        """What has been done when the run is to end."""
        return {"dataset": self.discipline.describe(self.dataset), **so_far(self.trained, self.group)}

    def _progress(self, progress: Progress) -> tuple[str, float]:
        """How far the first model has come: in words, and as a share of its steps."""
        epochs, steps = self.case["EPOCHS"], self.trained.shard.steps
        judged = f", {self.discipline.told(progress.curve[-1])}" if progress.curve else ""
        return f"epoch {min(progress.epoch + 1, epochs)} of {epochs}{judged}", progress.steps / (epochs * steps)
