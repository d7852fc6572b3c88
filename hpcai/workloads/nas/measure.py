"""Search for networks and hyper-parameters by P groups of Q ranks at once (AIPerf: Ren et al., 2020, arXiv:2008.07141).

There is no idle master: rank 0 trains like all others, and answers the groups' leaders between its steps.
"""

import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import torch
from mpi4py import MPI

from hpcai import clock
from hpcai.comm.clock_sync import common_start
from hpcai.comm.grid import Group
from hpcai.comm.shutdown import Shutdown
from hpcai.comm.world import World
from hpcai.data import catalog
from hpcai.data.image_dataset import description
from hpcai.data.image_loader import Loader
from hpcai.data.order import Shard
from hpcai.data.staging import StagedDataset
from hpcai.estimate.search import IMAGES
from hpcai.formulas import trial_schedule
from hpcai.inputfile import Case
from hpcai.machine import memory
from hpcai.plan.planner import limit_of_rank
from hpcai.plan.training_requirements import facts
from hpcai.preflight.case_checks import network
from hpcai.preflight.residuals import checks_before
from hpcai.record.record import as_json
from hpcai.search.child_builder import Nursery
from hpcai.search.convergence import Convergence
from hpcai.search.coordinator import Coordinator, Rules
from hpcai.search.group_runner import Leader, Squad
from hpcai.search.memory_limit import Room
from hpcai.search.storage import Archive, replayed
from hpcai.search.suggester import Choice
from hpcai.search.transport import Desk, Remote
from hpcai.search.trial_request import Errand
from hpcai.training.assembly import assembled_first, assembled_trial, same_data
from hpcai.training.groups import Measurement, Stopped, in_groups
from hpcai.workloads.nas.totals import summary

SWITCH_INTERVAL = 0.0005  # seconds after which Python's threads take turns: a step must not wait for a proposal
PAUSE = 0.0005
LAST_MESSAGES = 10.0  # seconds, for messages that were sent before all were done


def run(
    case: Case,
    seed: int,
    world: World,
    device: torch.device,
    tell: Callable[[str, float], None],
    shutdown: Shutdown,
    folder: str,
) -> Measurement | Stopped | None:
    """Measure one case; None on ranks that stay idle, which sleep until it is over. Collective over all ranks.

    When `ending` says so, it stops at the next step and returns what was measured until then. `tell` hears which trial
    this rank's group is at. History and weights come to lie in `folder`, which all nodes must see.
    """

    def measure(group: Group, copy: StagedDataset | None) -> Measurement | Stopped:
        search = _Search(case, seed, group, device, copy, Path(folder) / f"search-{case.index}", tell, shutdown, world)
        checked = search.prepare()
        return search.finish(checked, search.run(shutdown), shutdown)

    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL)
    try:
        return in_groups(case, seed, world, device, shutdown, measure)
    finally:
        sys.setswitchinterval(before)


class _Search:
    """A search on this rank. Collective over all active ranks."""

    def __init__(
        self,
        case: Case,
        seed: int,
        group: Group,
        device: torch.device,
        copy: StagedDataset | None,
        folder: Path,
        tell: Callable[[str, float], None],
        shutdown: Shutdown,
        world: World,
    ) -> None:
        self.case, self.seed, self.group, self.device, self.folder, self.tell = case, seed, group, device, folder, tell
        self.shutdown = shutdown
        self.phases = clock.Phases(device)
        if copy is not None:
            self.phases.seconds["staging"] = copy.measured.seconds
        with self.phases.measure("set-up"):
            self.dataset = same_data((copy and copy.dataset) or catalog.open_for(case.data_settings), group.active)
            self.initial = network(case, self.dataset)
            self.leaders = group.across.Dup()
            self.room = self._room(world)
            self.convergence = self._convergence()
            self.archive = Archive(folder)
            if group.active.rank == 0:
                self.archive.create()
            shutdown.barrier(group.active)
            self.archive.check_seen()

    def _room(self, world: World) -> Room:
        """The memory that the rank with the least has for a trial. Collective over all active ranks."""
        accelerated, active = self.device.type == "cuda", self.group.active
        free = active.allreduce(limit_of_rank(self.device, world.node.size).nbytes, MPI.MIN)
        baseline = 0 if accelerated else active.allreduce(memory.resident(), MPI.MAX)
        known = facts(self.case, self.dataset, self.device)
        return Room(self.case.settings, known, baseline, free, measures=self.case["REPLAY"] == "off")

    def _convergence(self) -> Convergence | None:
        """Where a search is to end when it has converged."""
        window = self.case["WINDOW"]
        return Convergence(self.initial, window, len(self.dataset.validation)) if window else None

    def prepare(self) -> Measurement:
        """The checks before the clock starts."""
        checked = checks_before(self.case, self.group, self.device, self.initial, self.phases)
        first = partial(assembled_first, self.case, self.group, self.device, self.dataset, self.initial)
        shard = Shard(len(self.dataset.train), 0, self.case["DEGREE"], self.case["BATCH"])
        return {
            "dataset": as_json(description(self.dataset)),
            "target": self.case["TARGET"] or self.dataset.target,
            "sharding": shard.rule,
            **checked,
            **compare_with_vendor(self.case, self.initial, first, self.group.active, self.device, self.phases),
        }

    def run(self, shutdown: Shutdown) -> Squad:
        """The search itself."""
        images = self._images()
        if self.case.index == 1:
            self.phases.seconds["start_up"] = clock.since_process_start()
        shutdown.barrier(self.group.active)
        begin = common_start(self.group.active)
        with ThreadPoolExecutor(1, "hpcai-search") as thread, self.phases.measure("search"):
            squad = self._squad(thread, images, lambda: clock.now() - begin)
            squad.run(shutdown, self.tell)
            self._wait_for_all(shutdown)
        return squad

    def _images(self) -> torch.Tensor:
        """A few training samples, normalised, on the host."""
        data, case = self.dataset, self.case
        count = min(IMAGES, len(data.train))
        loader = Loader(data.train, self.device, data.mean, data.std, case["RESOLUTION"], batch=count, crops=data.crops)
        (batch,) = loader([np.arange(count)])
        return batch.x.cpu().float().contiguous()

    def _squad(self, thread: ThreadPoolExecutor, images: torch.Tensor, now: Callable[[], float]) -> Squad:
        case, group = self.case, self.group
        nursery = Nursery(self.initial, self.folder, self.seed, case["INITIAL"], images)
        self.leader = self._leader(thread, nursery, now) if group.leader else None
        return Squad(
            group,
            self.device,
            nursery,
            thread,
            self.leader,
            partial(assembled_trial, case, group, self.device, self.dataset),
            self.folder,
            now,
            self.room,
            case["DURATION"],
            case["ROUNDS"],
            case["EPOCHS"],
        )

    def _leader(self, thread: ThreadPoolExecutor, nursery: Nursery, now: Callable[[], float]) -> Leader:
        case, worker = self.case, self.group.coordinates.group
        desk = None
        if worker == 0:
            coordinator = self._coordinator()
            self.archive.wanted = coordinator.wanted
            desk = Desk(self.leaders, coordinator, now, self._ended)
        line = desk or Remote(self.leaders)
        chosen = Choice(case.settings, self.seed, worker, self.initial, self.room, self.folder)

        def limits(round_: int) -> tuple[int, int]:
            epochs = trial_schedule.planned_epochs(round_, case["EPOCHS"])
            return epochs, trial_schedule.patience(round_, case["PATIENCE"])

        return Leader(Errand(line, chosen, nursery, thread, worker, limits), line, desk)

    def _coordinator(self) -> Coordinator:
        case = self.case
        rules = Rules(
            workers=case["GROUPS"],
            trials=case["TRIALS"],
            rounds=case["ROUNDS"],
            lag=case["LAG"] if case["REPLAY"] == "rounds" else None,
            recorded=self._recorded(),
        )
        return Coordinator(rules, self._record)

    def _record(self, message: dict[str, Any]) -> None:
        """A trial has come back to rank 0."""
        entry, line = message["lines"]
        self.archive.record(message["id"], line)
        if self.convergence:
            self.convergence.add(json.loads(line), json.loads(entry)["chain"])

    def _ended(self, seconds: float) -> str:
        """Why there are to be no more trials, `seconds` after the search began; empty if there are to be more."""
        if self.shutdown.poll():
            return self.shutdown.cause
        desk = self.leader and self.leader.desk
        if desk and 0 < self.case["DURATION"] <= seconds and desk.coordinator.counts.granted >= self.case["GROUPS"]:
            return "duration"
        return "converged" if self.convergence and self.convergence.reached(seconds) else ""

    def _recorded(self) -> dict[int, dict[str, Any]] | None:
        """Trials of an earlier search by number, where they are to be tried again."""
        recording = self.case.recording
        return replayed(Path(recording), self.case["GROUPS"]) if recording else None

    def _wait_for_all(self, shutdown: Shutdown) -> None:
        """Until all groups are done; rank 0 answers them."""
        request = self.group.active.Ibarrier()
        desk = self.leader and self.leader.desk
        while not request.Test():
            if desk:
                desk.serve()
            shutdown.poll()
            sleep(PAUSE)
        late = clock.now() + LAST_MESSAGES
        while desk and desk.coordinator.running and clock.now() < late:  # some may still be on their way
            desk.serve()

    def finish(self, checked: Measurement, squad: Squad, shutdown: Shutdown) -> Measurement | Stopped:
        """What all groups have done."""
        if self.leader:
            self.leader.line.finish()
        self.leaders.Free()
        trials = self.archive.trials() if self.group.active.rank == 0 else []
        found = checked | summary(self.group, squad, self.leader, trials, self.phases)
        return Stopped({"where": "search", **found}) if shutdown.agreed(self.group.active) else found
