"""Measures a search for networks and hyper-parameters (AIPerf; Ren et al., 2020, arXiv:2008.07141), by P groups.

No rank is reserved for the coordinator: rank 0 trains like all others, and answers the groups' leaders between steps.
"""

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from time import sleep

import numpy as np
import torch
from mpi4py import MPI
from msgspec import convert, structs

from hpcai import clock
from hpcai.checkpoint.paths import folder_of
from hpcai.comm import communicators, survival
from hpcai.comm.clock_sync import common_start
from hpcai.comm.shutdown import Shutdown
from hpcai.comm.world import World
from hpcai.data import catalog
from hpcai.data.image_loader import Loader
from hpcai.estimate.search import IMAGES
from hpcai.formulas import trial_schedule
from hpcai.inputfile import Case
from hpcai.machine import memory
from hpcai.plan.machine import limit_of_rank
from hpcai.plan.training_requirements import facts
from hpcai.preflight.case_checks import network
from hpcai.results.measured import Stopped
from hpcai.search.child_builder import ChildBuilder
from hpcai.search.convergence import Convergence
from hpcai.search.group_runner import GroupLeader, GroupRunner
from hpcai.search.kept_trials import NAME
from hpcai.search.memory_limit import MemoryLimit
from hpcai.search.paths import search_folder
from hpcai.search.storage import SearchStorage
from hpcai.search.suggester import Suggester
from hpcai.search.transport import CoordinatorTransport, LeaderTransport
from hpcai.search.trial_request import TrialRequest
from hpcai.train.evaluation_check import deviation_of_rank
from hpcai.training.assembly import same_data, trial_training
from hpcai.training.energy_window import energy_window
from hpcai.training.groups import ActiveGroup, in_groups
from hpcai.training.model_log import ModelLog
from hpcai.training.task import Report
from hpcai.training.times import PhaseAccount
from hpcai.workloads.nas.coordination import Coordination, rules_of
from hpcai.workloads.nas.preparation import Prepared, prepared
from hpcai.workloads.nas.record import EndedBy, SearchRaw, StoppedSearch
from hpcai.workloads.nas.resumed import earlier_jobs
from hpcai.workloads.nas.totals import totals

SWITCH_INTERVAL = 0.0005  # seconds between switches of Python's threads: a step must not wait for a proposal
PAUSE, LAST_MESSAGES = 0.0005, 10.0  # seconds between polls; for messages that were sent before all groups were done


def run(
    case: Case, world: World, device: torch.device, report: Report, shutdown: Shutdown, folder: str
) -> SearchRaw | Stopped | None:
    """Measure one case; None on ranks that stay idle, which sleep until it is over. Collective over all ranks.

    On a shutdown it returns what was measured until then. All nodes must see `folder`, for journal and weights.
    """

    def measure(active: ActiveGroup) -> SearchRaw | Stopped:
        search = _Search(case, active, device, Path(folder) / search_folder(case.index), report, shutdown, world)
        return search.finish(search.prepare(), search.run(shutdown), shutdown)

    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL)
    try:
        return in_groups(case, world, device, shutdown, measure)
    finally:
        sys.setswitchinterval(before)


class _Search:
    """A search on this rank. Collective over all active ranks."""

    def __init__(
        self,
        case: Case,
        active: ActiveGroup,
        device: torch.device,
        folder: Path,
        report: Report,
        shutdown: Shutdown,
        world: World,
    ) -> None:
        self.case, self.active, self.device, self.folder = case, active, device, folder
        self.log = ModelLog(case, active, device, str(folder.parent))
        self.seed, self.group, copy = case.seed, active.group, active.copy
        self.report, self.shutdown, self.account = report, shutdown, PhaseAccount()
        self.begin = 0.0  # reading of this rank's clock when the search began, or would have begun in this job
        self.phases = clock.Phases(device)
        if copy is not None:
            self.phases.seconds["staging"] = copy.measured.seconds
        with self.phases.measure("set_up"):
            self.dataset = same_data((copy and copy.dataset) or catalog.open_for(case.data_settings), self.group.active)
            self.initial = network(case, self.dataset)
            self.leaders = communicators.duplicate(self.group.across)
            self.memory = self._memory(world)
            self.convergence = self._convergence()
            self.energy = energy_window(case, active, device)
            self.storage = SearchStorage(folder)
            self.kept = folder_of(folder.parent, case.index) / NAME
            begun = clock.utc_instant().timestamp() - self.account.wall
            own = self.group, self.leaders, self.storage, self.kept
            self.earlier = earlier_jobs(*own, case["DURATION"], begun, case.lost)
            shutdown.barrier(self.group.active)
            self.storage.check_visible()
        self.earlier.clock.restore(self.phases, self.account)

    def _memory(self, world: World) -> MemoryLimit:
        """The memory limit of the rank with the least memory. Collective over all active ranks."""
        accelerated, active = self.device.type == "cuda", self.group.active
        free = active.allreduce(limit_of_rank(self.device, world.node.size).nbytes, MPI.MIN)
        baseline = 0 if accelerated else active.allreduce(memory.resident(), MPI.MAX)
        known = facts(self.case, self.dataset, self.device)
        return MemoryLimit(self.case.settings, known, baseline, free, corrects=self.case["REPLAY"] == "off")

    def _convergence(self) -> Convergence | None:
        """Convergence check of a search that ends by it."""
        window = self.case["WINDOW"]
        return Convergence(self.initial, window, len(self.dataset.validation)) if window else None

    def prepare(self) -> Prepared:
        """The checks before the clock starts."""
        return prepared(self.case, self.group, self.device, self.dataset, self.initial, self.phases)

    def run(self, shutdown: Shutdown) -> GroupRunner:
        """The search itself."""
        images, before = self._images(), self.earlier.clock
        with ThreadPoolExecutor(1, "hpcai-search") as thread:
            with self.phases.measure("set_up"):  # it learns the trials of earlier jobs
                runner = self._runner(thread, images, lambda: clock.now() - self.begin)
            if self.case.index == 1:
                self.phases.seconds["start_up"] = survival.since_start()
            shutdown.barrier(self.group.active)
            self.log.mark()
            with self.energy.region(shutdown, before.elapsed):
                self.begin = common_start(self.group.active) - before.seconds
                with self.phases.measure("search"):
                    self.log.mark()
                    runner.run(shutdown, self.report)
                    self.log.mark()
                    self._wait_for_all(shutdown)
                    thread.shutdown()  # it may still build a network
                self.accounting = self.account.closed(self.phases, self.group.active)
        self.log.write_trials(self.dataset)
        return runner

    def _images(self) -> torch.Tensor:
        """A few training samples, normalised, on the host."""
        data, case = self.dataset, self.case
        count = min(IMAGES, len(data.train))
        loader = Loader(data.train, self.device, data.mean, data.std, case.resolution, batch=count, crops=data.crops)
        (batch,) = loader([np.arange(count)])
        return batch.x.cpu().float().contiguous()

    def _runner(self, thread: ThreadPoolExecutor, images: torch.Tensor, now: Callable[[], float]) -> GroupRunner:
        case, group = self.case, self.group
        builder = ChildBuilder(self.initial, self.folder, self.seed, case["INITIAL"], images)
        self.leader = self._leader(thread, builder, now) if group.leader else None
        runner = GroupRunner(
            *(group, self.device, builder, thread, self.leader),
            self.log.noting(partial(trial_training, case, group, self.device, self.dataset)),
            partial(deviation_of_rank, precision=case.precision),
            self.folder,
            now,
            self.memory,
            case["DURATION"],
            case["ROUNDS"],
            case.epochs,
        )
        self.earlier.restore(runner)
        return runner

    def _leader(self, thread: ThreadPoolExecutor, builder: ChildBuilder, now: Callable[[], float]) -> GroupLeader:
        case, worker = self.case, self.group.coordinates.group
        transport: CoordinatorTransport | LeaderTransport = LeaderTransport(self.leaders)
        if self.leaders.rank == 0:
            own = self.storage, self.kept, self.earlier, self.initial, self.convergence
            transport = Coordination(case, self.leaders, *own, now, self.shutdown).transport
        suggester = Suggester(case, worker, self.initial, self.memory, self.folder)

        def limits(round_: int) -> tuple[int, int]:
            epochs = trial_schedule.planned_epochs(round_, case.epochs)
            return epochs, trial_schedule.patience(round_, case["PATIENCE"])

        request = TrialRequest(transport, suggester, builder, thread, worker, limits)
        rules = rules_of(case, {} if case.recording else None)
        self.earlier.teach(request, suggester, rules, worker, case.epochs)
        return GroupLeader(request, transport)

    def _wait_for_all(self, shutdown: Shutdown) -> None:
        """Wait until all groups are done; rank 0 answers them."""
        request = self.group.active.Ibarrier()
        served = self.leader and self.leader.coordinator
        while not request.Test():
            if served:
                served.serve()
            shutdown.poll()
            sleep(PAUSE)
        late = clock.now() + LAST_MESSAGES
        while served and served.coordinator.running and clock.now() < late:  # messages may still be on their way
            served.serve()

    def finish(self, checked: Prepared, runner: GroupRunner, shutdown: Shutdown) -> SearchRaw | Stopped:
        """The measurement of all groups. Collective over all active ranks."""
        if self.leader:
            self.leader.transport.finish()
        self.leaders.Free()
        storage, apart = self.storage if self.group.active.rank == 0 else None, self.active.between_nodes
        own = self.group, runner, self.leader, storage, self.phases, self.accounting, apart, checked
        measured, ended_by = totals(*own, self.earlier.clock.resumed, self.case.lost, self.earlier.counted)
        if shutdown.agreed(self.group.active):
            return Stopped(StoppedSearch(**structs.asdict(measured), ended_by=ended_by))
        return SearchRaw(
            **structs.asdict(measured),
            ended_by=convert(ended_by, EndedBy),
            backend=self.active.backend,
            staging=self.active.copy.measured if self.active.copy else None,
            site_kernels=self.active.site_kernels,
            all_reduce=checked.all_reduce,
            energy=self.energy.measured(),
        )
