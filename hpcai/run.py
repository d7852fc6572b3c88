"""A run from the agreed problem to the last line of the report: prepare, then measure, judge and tell case by case."""

import sys
from dataclasses import asdict
from functools import partial
from importlib import import_module
from types import ModuleType

import torch
from mpi4py import MPI

from hpcai import __version__, clock
from hpcai import result as results
from hpcai.comm.device_selection import select_device
from hpcai.comm.grid_coordinates import Grid, described, grids_of, groups_of
from hpcai.comm.shutdown import Shutdown
from hpcai.comm.world import World, agreed, broadcast, gather_all, gather_listed, together
from hpcai.detections import stored
from hpcai.errors import HpcaiError
from hpcai.inputfile import Case, Problem
from hpcai.machine import device as devices
from hpcai.machine import inventory, memory
from hpcai.machine.affinity import Placement, ranges
from hpcai.monitoring.memory_usage import Usage, told_if_short
from hpcai.monitoring.node_telemetry import Monitor
from hpcai.preflight.case_checks import check, check_rank, survey
from hpcai.preflight.library_loading import compiles
from hpcai.report import files, hpl
from hpcai.report.progress import ProgressLine
from hpcai.report.tables import block
from hpcai.training.groups import Measurement, Stopped

FILING = ("weather", "nas")  # write files of their own


def run(problem: Problem, world: World, placement: Placement) -> int:
    """Run all cases; the exit code. Collective over all ranks; Refused if a case cannot be run here.

    A signal or the time limit ends the run after a step, with what was measured until then.
    """
    shutdown = Shutdown(world.comm, float(problem.run["TIMELIMIT"]))
    device = select_device(world)
    devices.prepare(device, placement.threads)
    cases = _cases(problem, world, accelerators(world, device))
    _announce(cases, world, device)
    usage = Usage(cases, world, device)
    agreed(world.comm, lambda: check(cases, device))
    checks = device.type == "cuda" or world.node.rank == 0
    together(world.comm, lambda: check_rank(cases, device) if checks else None)
    usage.refuse()
    survey(cases, world.comm)  # may take hours, so that whatever can be refused is refused before
    monitor = Monitor(world, placement, device, float(problem.run["TELEMETRY"]))
    book = _Book(problem, world, _head(problem, cases, world, placement, device), len(cases))
    for case in cases:
        tell = partial(book.progress, case)
        workload = _workload(case.workload)
        begun = not shutdown.agreed(world.comm)
        usage.begin()
        more = {"folder": book.where} if case.workload in FILING else {}
        with monitor.watching(), told_if_short(case):
            measured = workload.run(case, case["SEED"], world, device, tell, shutdown, **more) if begun else None
        used, seen = usage.measured(case), monitor.measured()
        if isinstance(measured, dict) and used:
            measured |= {"memory": used} | ({"telemetry": seen} if seen else {})
        if shutdown.agreed(world.comm) and _unfinished(world, measured):
            book.break_off(case, shutdown.cause, measured)
            break
        book.enter(case, measured)
        memory.give_back()  # a model is part of cycles; its memory must be free before the next one's
    shutdown.close()
    return broadcast(world.comm, book.close())


def _workload(name: str) -> ModuleType:
    """Searches and detectors load a compiler, which other workloads may do without."""
    return import_module(f"hpcai.workloads.{name}.measure")


def _announce(cases: list[Case], world: World, device: torch.device) -> None:
    """Say why nothing is to be seen for a while."""
    if world.rank == 0 and compiles(cases, device):
        print("hpcai: compiling our kernels for this processor, once: a minute or two", file=sys.stderr, flush=True)


def _unfinished(world: World, measured: Measurement | Stopped | None) -> bool:
    """Whether no rank has measured the case to its end; idle ranks measure nothing. Collective."""
    return not world.comm.allreduce(int(isinstance(measured, dict)), MPI.MAX)


def accelerators(world: World, device: torch.device) -> int:
    """GPUs that the ranks of a node use, on the node that uses fewest; 0 on CPUs. Collective."""
    gpus = {*gather_all(world.node, devices.identity(device))} - {devices.CPU}
    return int(world.comm.allreduce(len(gpus), MPI.MIN))


def _cases(problem: Problem, world: World, count: int) -> list[Case]:
    """The cases, the same on every rank; Refused if a grid does not fit the ranks. Collective."""
    agreed(world.comm, lambda: len(problem.cases(world.size, count)))
    return problem.cases(world.size, count)


def _head(
    problem: Problem, cases: list[Case], world: World, placement: Placement, device: torch.device
) -> results.Json:
    """The result before its first test; tells of all ranks by sums, and by name of the first ones only. Collective."""
    grids = grids_of(case.settings for case in cases)
    ranks = gather_listed(world, _rank(world, placement, device, grids))
    environment = {
        **asdict(inventory.inventory(_mpi_library(), devices.name(device), devices.libraries(device))),
        "ranks": world.size,
        "nodes": world.comm.allreduce(int(world.node.rank == 0)),
        "accelerators": accelerators(world, device),
        **described(grids, world.size),
        "warnings": _warnings(world, placement),
    }
    return {
        "schema": results.SCHEMA,
        "version": __version__,
        "date": clock.utc().isoformat(),
        "input": problem.as_dict(),
        "environment": environment,
        "ranks": ranks,
        **{member: [] for member in results.EMPTY},
        "broken_off": None,
    }


def _mpi_library() -> str:
    return MPI.Get_library_version().split("\n")[0].strip("\0 ")


def _rank(world: World, placement: Placement, device: torch.device, grids: list[Grid]) -> results.Json:
    return {
        "rank": world.rank,
        "groups": groups_of(world.rank, grids),
        "host": world.host,
        "device": str(device),
        "cpus": ranges(placement.cpus),
        "threads": placement.threads,
    }


def _warnings(world: World, placement: Placement) -> list[str]:
    """What makes the machine slower than it is, counted over all ranks. Collective."""
    counts = {
        "share processors with another rank": placement.sharers > 0,
        "have more threads than processors": placement.threads > len(placement.cpus),
        "compute on processors beside GPUs that nobody has hidden": devices.unused(),
    }
    totals = {what: world.comm.allreduce(int(true)) for what, true in counts.items()}
    return [f"{total} of {world.size} ranks {what}" for what, total in totals.items() if total]


class _Book:
    """Rank 0's account of the run: prints and writes each test as it ends. On other ranks it does nothing."""

    def __init__(self, problem: Problem, world: World, head: results.Json, planned: int) -> None:
        self.writes = world.rank == 0
        self.result = head
        self.planned = planned
        if self.writes:
            self.line = ProgressLine(sys.stderr, planned)
            self.folder = files.create_folder(str(problem.run["OUTPUT"]), clock.utc())
            self._keep()
            _tell(hpl.banner(head))
        self.where: str = broadcast(world.comm, str(self.folder.absolute()) if self.writes else "")

    def progress(self, case: Case, text: str, share: float) -> None:
        """Tell on stderr how far a case has come: in words, and which share of it is done."""
        if self.writes:
            self.line.tell(case.index, text, share)

    def break_off(self, case: Case, cause: str, measured: Measurement | Stopped | None) -> None:
        """Keep what is known of the case in which the run ended early."""
        if self.writes:
            raw = measured.raw if isinstance(measured, Stopped) else None
            self.result["broken_off"] = results.broken_off(case, cause, raw)
            self._keep()

    def enter(self, case: Case, measurement: Measurement | Stopped | None) -> None:
        """Judge a case that has ended, and keep what is known so far."""
        if self.writes and isinstance(measurement, dict):
            entered = results.enter(self.result, case, measurement)
            self._keep()
            self.line.clear()
            _tell(block(self.result, entered))

    def _keep(self) -> None:
        """Write what is known so far: until the last test has ended, a run that was broken off."""
        files.write(self.folder, results.sealed(self.result, self.planned))

    def close(self) -> int:
        """Print the end of the report; the exit code."""
        if not self.writes:
            return 0
        sealed = results.sealed(self.result, self.planned)
        _tell(hpl.closing(sealed))
        names = sorted({*files.contents(sealed), *(path.name for path in self.folder.glob(stored.name("*")))})
        print(f"hpcai: {', '.join(names[:-1])} and {names[-1]} are in {self.folder}", file=sys.stderr)
        return _exit_code(sealed["summary"])


def _exit_code(summary: results.Json) -> int:
    if not summary["complete"]:
        return HpcaiError.exit_code
    return 1 if summary["failed"] else 0


def _tell(text: str) -> None:
    try:
        print(text, end="", flush=True)
    except OSError as error:
        raise HpcaiError(f"cannot write the report to standard output: {error.strerror}") from None
