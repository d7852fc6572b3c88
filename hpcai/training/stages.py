"""The stages of a case of P models: preflight, warm-up, training, validation, ensemble; for any task."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Generic, Literal

import torch
from msgspec import structs

from hpcai import clock
from hpcai.comm import survival
from hpcai.comm.shutdown import Shutdown
from hpcai.comm.world import World
from hpcai.inputfile import Case
from hpcai.machine import memory
from hpcai.preflight.case_checks import network
from hpcai.preflight.kernel_choice import choose
from hpcai.preflight.layer_products import Product
from hpcai.preflight.network_check import check_network
from hpcai.preflight.residuals import checks_before
from hpcai.preflight.vendor_comparison import compare_with_vendor
from hpcai.record.preflight import KernelChoice, NetworkCheck
from hpcai.record.training import Preparation, StoppedTraining, TrainingRaw
from hpcai.results.kernel_choice import AUTO
from hpcai.results.measured import Stopped
from hpcai.results.reached import first_reaching
from hpcai.train.content_findings import delivered
from hpcai.train.evaluation_check import evaluation_deviation
from hpcai.train.providers import use_custom
from hpcai.train.state import Progress
from hpcai.training.assembly import same_data
from hpcai.training.checkpointing import Checkpointing
from hpcai.training.content import data_content
from hpcai.training.energy_window import energy_window
from hpcai.training.groups import ActiveGroup, in_groups
from hpcai.training.model_log import ModelLog, logged
from hpcai.training.pipelined import pipelined_by
from hpcai.training.summation import all_reduce_of, exchanged_by, sent_by
from hpcai.training.task import Entry, Raw, Report, Task, Together
from hpcai.training.times import PhaseAccount, profiled, times_of
from hpcai.training.totals import loading_of, models_of, so_far, work_of
from hpcai.workloads.registry import quality_of


def run(
    task: Task[Entry, Together, Raw],
    case: Case,
    world: World,
    device: torch.device,
    report: Report,
    shutdown: Shutdown,
    folder: str,
) -> Raw | Stopped | None:
    """Measure one case; None on idle ranks, which sleep until it is over. Collective over all ranks.

    On a shutdown it stops at the next step and returns the measurements until then. folder: of the result, for logs
    and checkpoints.
    """

    def measure(active: ActiveGroup) -> Raw | Stopped:
        log = ModelLog(case, active, device, folder)
        return _Stages(task, case, active, device, world.host, log, folder).run(report, shutdown)

    return in_groups(case, world, device, shutdown, measure)


class _Stages(Generic[Entry, Together, Raw]):
    """The stages of a case on this rank. Collective over all active ranks."""

    def __init__(
        self,
        task: Task[Entry, Together, Raw],
        case: Case,
        active: ActiveGroup,
        device: torch.device,
        host: str,
        log: ModelLog,
        folder: str,
    ) -> None:
        self.log = log
        self.task, self.case, self.device, self.host = task, case, device, host
        self.active, self.group, copy = active, active.group, active.copy
        self.phases = clock.Phases(device)
        if copy is not None:
            self.phases.seconds["staging"] = copy.measured.seconds
        self.account = PhaseAccount()
        with self.phases.measure("set_up"):
            opened = copy and copy.dataset
            self.dataset: Any = same_data(opened or task.open(case, self.group), self.group.active)
            self.target: float = case.target or self.dataset.target
            self.graph = network(case, self.dataset)
            self.trained = task.assemble(case, self.group, device, self.dataset, self.graph)
            self.energy = energy_window(case, active, device)
            self.kept = Checkpointing(case, self.group, folder, self.phases, self.account, log.marks)

    def run(self, report: Report, shutdown: Shutdown) -> Raw | Stopped:
        """Run the stages in order, unless a shutdown comes between two of them."""
        preparation = self.prepare()
        if shutdown.agreed(self.group.active):
            return self.stopped("preparation")
        self.train(report, shutdown)
        if shutdown.agreed(self.group.active):
            return self.stopped("training")
        checks = self.trained.checks
        before = replace(checks.contents)
        with self.phases.measure("ensemble"), checks.judging(self.trained.execution.network) as seen:
            evaluated = self.task.evaluate(self.trained, self.group, shutdown)
        if shutdown.agreed(self.group.active) or evaluated is None:
            checks.contents.restore(before)  # the next job evaluates from the first batch on
            self.kept.on_pause()
            return self.stopped("ensemble")
        self.kept.close()
        checks.judge(seen, self.trained.validation.shard.steps)
        return self.raw(preparation, *evaluated, shutdown)

    def prepare(self) -> Preparation:
        """Everything before the clock: preflight checks, kernel choice, warm-up of every shape."""
        choice, custom = self._choice() if self.case.kernels == AUTO else (None, None)
        group, trained = self.group, self.trained
        checked = checks_before(
            self.case, group, self.device, self.graph, self.phases, trained.execution.communication, custom
        )
        network = self._network_check()
        compared = compare_with_vendor(
            self.case, self.graph, lambda: trained, group.active, self.device, self.phases
        )
        with self.phases.measure("warm_up"):
            warmup_steps = trained.warm_up()
        return Preparation(
            steps_per_epoch=trained.shard.steps,
            sharding=trained.shard.rule,
            warmup_steps=warmup_steps,
            wrong_sums=checked.wrong_sums,
            residuals=checked.residuals,
            probe=checked.probe,
            processor=checked.processor,
            vendor_comparison=compared,
            kernel_choice=choice,
            network_check=network,
        )

    def _network_check(self) -> NetworkCheck:
        """The network before its first step against second implementations."""
        module: Any = self.trained.state.module
        data = self.dataset.shape, self.dataset.number_of_classes
        with self.phases.measure("residuals"):
            found = check_network(self.case, self.group.active, module, self.graph, *data)
        memory.release_unused()
        return found

    def _choice(self) -> tuple[KernelChoice, Mapping[Product, Collection[str]]]:
        """Choose the faster kernels of each layer and use them; what was timed, and the custom directions."""
        module: Any = self.trained.state.module
        with self.phases.measure("kernel_choice"):
            found = choose(self.trained, self.group.active, self.device, self.kept.choice)
            use_custom(module, found.choice)
            self.kept.choice = found.measured
        memory.release_unused()
        return found.measured, found.products

    def train(self, report: Report, shutdown: Shutdown) -> None:
        """The timed region, and the validations in it."""
        if self.case.index == 1:
            self.phases.seconds["start_up"] = survival.since_start()
        self.log.mark()
        with self.energy.region(shutdown, self.kept.earlier):
            self.log.mark()
            self.kept.watch(self.trained)
            self.trained.run(self.phases, shutdown, lambda progress: report(*self._progress(progress)), self.kept)
            self.log.mark()
        samples = self.trained.sampler.size, len(self.dataset.validation)
        training = logged(self.trained.milestones, self._curve(), samples[1], broken_off=self.trained.stopped)
        self.log.write([training], self.case.network, samples, self.target)

    def raw(self, preparation: Preparation, together: Together, miscounted: int, shutdown: Shutdown) -> Raw:
        """The measurements of all ranks; `miscounted` is of the ensemble's validation."""
        trained, group, samples = self.trained, self.group, len(self.dataset.validation)
        with self.phases.measure("replay"):
            deviation = evaluation_deviation(trained, self.case.precision)
            content = data_content(self.case, self.dataset, group)
        memory.release_unused()  # the profiler's records would fragment the memory of a step's large blocks
        with self.phases.measure("profile"):
            operators = profiled(trained, group, shutdown)
        accounting = self.account.closed(self.phases, group.active)
        curve, steps = self._curve(), trained.state.progress.steps
        reached = first_reaching(quality_of(self.case.workload), curve, samples, self.target)
        times = times_of(trained, self.phases, self.host, group.active)
        reduced = all_reduce_of(trained.execution.communication, group.active)
        shared = TrainingRaw(
            backend=self.active.backend,
            dataset=self.task.describe(self.dataset),
            target=self.target,
            preparation=preparation,
            work=work_of(trained, group, curve, samples, miscounted),
            models=models_of(group, steps, reached, self.active.between_nodes),
            replay=trained.checks.measured(),
            execution=trained.execution.measured(group.active),
            **times._asdict(),
            operator_seconds=operators,
            staging=self.active.copy.measured if self.active.copy else None,
            site_kernels=self.active.site_kernels,
            all_reduce=reduced,
            exchanged=exchanged_by(trained.state.progress.sent, group),
            pipeline=pipelined_by(trained.state.progress, group, self.device),
            loading=loading_of(self.task.loading, trained.state.progress.loading, group.active),
            sent=sent_by(reduced, trained.state.progress.sent, steps, group.active),
            energy=self.energy.measured(),
            accounting=accounting,
            delivered=delivered(trained.checks.contents, content, group),
            evaluation_deviation=deviation,
            checkpoints=self.kept.measured(),
            lost_groups=self.case.lost,
        )
        return self.task.raw(shared, curve, together, trained)

    def stopped(self, where: Literal["preparation", "training", "ensemble"]) -> Stopped:
        """The measurements up to a shutdown."""
        self.kept.close()
        shared = so_far(where, self.task.describe(self.dataset), self.trained, self.group, self.case.lost)
        return Stopped(self.task.stopped(shared, self.group.active.bcast(self._curve())))

    def _curve(self) -> tuple[Entry, ...]:
        return self.task.curve(self.trained.state.progress.curve)

    def _progress(self, progress: Progress) -> tuple[str, float]:
        """Progress of the model: as text, and as a share of its steps."""
        epochs, steps, curve = self.case.epochs, self.trained.shard.steps, self._curve()
        quality = f", {self.task.quality(curve[-1], len(self.dataset.validation))}" if curve else ""
        return f"epoch {min(progress.epoch + 1, epochs)} of {epochs}{quality}", progress.steps / (epochs * steps)


def with_shared(shared: TrainingRaw | StoppedTraining) -> dict[str, Any]:
    """The fields of the shared measurements, as arguments of a workload's own record."""
    return structs.asdict(shared)
