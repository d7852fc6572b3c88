"""Image classification by an ensemble of P models, each trained by Q ranks (HPC AI500 V3; P = 1 is V2)."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch

from hpcai import clock
from hpcai.comm.ending import Ending
from hpcai.comm.grid import Group, split
from hpcai.comm.rendezvous import process_group
from hpcai.comm.world import World
from hpcai.data import catalog
from hpcai.data.dataset import description
from hpcai.data.stage import Staged, staged
from hpcai.inputfile import Case
from hpcai.machine import memory
from hpcai.train import bagging
from hpcai.train import precision as precisions
from hpcai.train.parallel import wrong_sums
from hpcai.train.state import Progress
from hpcai.workloads import seconds
from hpcai.workloads.assembly import assembled, same_data
from hpcai.workloads.prepare import network
from hpcai.workloads.probe import probe
from hpcai.workloads.residuals import worst_residuals
from hpcai.workloads.totals import between_nodes, members, so_far, totals

Measurement = dict[str, Any]  # raw observations by name, the same on all ranks that took part


@dataclass(frozen=True)
class Stopped:
    """What was measured of a case before the run was to end; the same on all ranks that took part."""

    raw: Measurement


def run(
    case: Case, seed: int, world: World, device: torch.device, tell: Callable[[str, float], None], ending: Ending
) -> Measurement | Stopped | None:
    """Measure one case; None on ranks that stay idle, which sleep until it is over. Collective over all ranks.

    When `ending` says so, it stops at the next step and returns what was measured until then. `tell` hears how far
    this rank's model has come, in words, and the share of the training that is done.
    """
    group = split(world.comm, case["GROUPS"], case["DEGREE"], case["MAPPING"])
    node = world.node.bcast(world.rank)  # the rank of its first one
    measurement: Measurement | Stopped | None = None
    with staged(case, seed, group, world, ending) as copy:
        if group is not None:
            with process_group(group, world.host, device) as backend, precisions.switched(case["PRECISION"]):
                measurement = _measure(_Stages(case, seed, group, device, world.host, copy), tell, ending)
            if not isinstance(measurement, Stopped):
                measurement |= {"backend": backend, **between_nodes(group, node)}
                if copy is not None:
                    measurement["staging"] = copy.measured
            group.free()
        ending.barrier(world.comm)
    return measurement


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
        case, comm = self.case, self.group.active
        wrong = wrong_sums(self.group, self.device, sum(self.graph.parameters.values()))
        with self.phases.measure("residuals"):
            arithmetic = precisions.PRECISIONS[case["PRECISION"]].arithmetic
            residuals = worst_residuals(self.graph, case["BATCH"], comm, self.device, self.seed, arithmetic)
        probed = self._probed()
        memory.give_back()  # what the checks needed, before a step needs its own
        with self.phases.measure("warm-up"):
            warmup_steps = self.trained.warm_up()
        return {
            "dataset": description(self.dataset),
            "target": self.target,
            "steps_per_epoch": self.trained.shard.steps,
            "sharding": self.trained.shard.rule,
            "warmup_steps": warmup_steps,
            "wrong_sums": comm.allreduce(wrong),
            "residuals": residuals,
            **probed,
        }

    def _probed(self) -> Measurement:
        """What the probe of a precision found; nothing for fp32, which others are compared with."""
        precision = self.case["PRECISION"]
        if precision == "fp32":
            return {}
        memory.give_back()  # what the residuals needed
        with self.phases.measure("probe"):
            return {"probe": probe(self.graph, precision, self.group.active, self.device)}

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
