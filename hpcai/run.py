"""Runs the cases of a problem one by one: prepare, measure, record."""

import os
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import torch
from mpi4py import MPI
from msgspec import convert

from hpcai import __version__, clock
from hpcai.attempts import Attempts
from hpcai.comm.device_selection import select_device
from hpcai.comm.grid_coordinates import Grid, grids_of, groups_of, idle_ranks, listed_grids
from hpcai.comm.nodes import VARIABLE, assumed_ranks
from hpcai.comm.shutdown import Shutdown
from hpcai.comm.world import World, agreed, gather_all, gather_listed, on_all_ranks
from hpcai.data.dataset_paths import crops
from hpcai.inputfile import Case, Problem
from hpcai.machine import device as devices
from hpcai.machine import inventory, program_source, scheduler
from hpcai.machine.affinity import Placement, ranges
from hpcai.monitoring.memory_usage import Usage
from hpcai.preflight import formula_answers, generator_answers
from hpcai.preflight.case_checks import check, check_rank, survey
from hpcai.preflight.library_loading import compiles, refused_folders
from hpcai.record.machine import Environment, Rank
from hpcai.record.plain import checked, plain
from hpcai.record.problem import input_of
from hpcai.record.result import Result
from hpcai.recorder import Recorder
from hpcai.results.layers import broken
from hpcai.train.all_reduce_paths import refuse_unequal_nodes
from hpcai.workloads import registry

MOST_REASONS = 20  # that are printed before the first test


def run(
    problem: Problem,
    world: World,
    placement: Placement,
    variables: Mapping[str, str],
    resumed: Path | None = None,
) -> int:
    """Run all cases; the exit code. Collective over all ranks; Refused if a case cannot be run here.

    variables: settings of libraries in the user's environment; those of rank 0 are recorded. resumed: the folder of
    a run that was broken off, to go on with.
    A signal or the time limit ends the run after a step, with what was measured until then.
    """
    limit = agreed(world.comm, lambda: scheduler.time_limit(problem.run["TIMELIMIT"], os.environ))
    shutdown = Shutdown(world.comm, limit)
    device = select_device(world)
    devices.prepare(device, placement.threads)
    cases = _cases(problem, world, accelerators(world, device))
    _announce(cases, world, device)
    usage = Usage(cases, world, device)
    cropped = any(case.trains and crops(case.dataset) for case in cases)
    on_all_ranks(world.comm, lambda: _known_answers(cropped))
    agreed(world.comm, lambda: check(cases, device))
    checks = device.type == "cuda" or world.node.rank == 0
    on_all_ranks(world.comm, lambda: check_rank(cases, device) if checks else None)
    refuse_unequal_nodes(cases, world)
    usage.refuse()
    survey(cases, world.comm)  # may take hours, so everything that can be refused is refused before
    head = _head(problem, cases, world, placement, device, variables)
    _warn(head.environment, world)
    _warn_of_level(cases, head.environment, world)
    recorder = Recorder(problem, world, head, len(cases), device, resumed)
    attempts = Attempts(world, placement, device, shutdown, usage, recorder, problem.run)
    return attempts.run([case for case in cases if case.index not in recorder.ended])


def _known_answers(crops: bool) -> None:
    """HpcaiError if a generator, a score or an operation count gives another answer than the known one."""
    generator_answers.check(crops)
    formula_answers.check()


def _announce(cases: list[Case], world: World, device: torch.device) -> None:
    """Print why machine code is not used, and why there is no output for a while."""
    for reason in refused_folders() if world.rank == 0 else []:
        print(f"hpcai: machine code is not used: {reason}", file=sys.stderr, flush=True)
    if world.rank == 0 and compiles(cases, device):
        print("hpcai: compiling custom kernels for this processor, once: 1 to 2 minutes", file=sys.stderr, flush=True)


def _warn(environment: Environment, world: World) -> None:
    """Print what slows the machine down or leaves ranks idle, as the report says too, while the run can be ended."""
    for warning in (*environment.warnings, *environment.idle) if world.rank == 0 else ():
        print(f"hpcai: WARNING: {warning}", file=sys.stderr, flush=True)


def _warn_of_level(cases: list[Case], environment: Environment, world: World) -> None:
    """Print before the first test why a row cannot have the level that the input claims."""
    rows = [case for case in cases if registry.workload(case.workload).digit]
    reasons = dict.fromkeys(reason for case in rows for reason in broken(case, environment)) if world.rank == 0 else {}
    for reason in [*reasons][:MOST_REASONS]:
        print(f"hpcai: the result will be INVALID: {reason}", file=sys.stderr, flush=True)


def accelerators(world: World, device: torch.device) -> int:
    """GPUs that the ranks of a node use, on the node that uses fewest; 0 on CPUs. Collective."""
    gpus = {*gather_all(world.node, devices.identity(device))} - {devices.CPU}
    return int(world.comm.allreduce(len(gpus), MPI.MIN))


def _cases(problem: Problem, world: World, count: int) -> list[Case]:
    """The cases, the same on every rank; Refused if a grid does not fit the ranks. Collective."""
    agreed(world.comm, lambda: len(problem.cases(world.size, count)))
    return problem.cases(world.size, count)


def _head(
    problem: Problem,
    cases: list[Case],
    world: World,
    placement: Placement,
    device: torch.device,
    variables: Mapping[str, str],
) -> Result:
    """The result before its first test: sums over all ranks, and the first ranks by name. Collective."""
    grids = grids_of(cases)
    listed = gather_listed(world, plain(_rank(world, placement, device, grids)))
    environment = Environment(
        **asdict(inventory.inventory(_mpi_library(), devices.name(device), devices.libraries(device))),
        ranks=world.size,
        nodes=world.comm.allreduce(int(world.node.rank == 0)),
        accelerators=accelerators(world, device),
        grids=listed_grids(grids),
        idle=idle_ranks(grids, world.size),
        warnings=tuple(_warnings(world, placement)),
        variables=dict(variables),
        source_sha256=program_source.digest() if world.rank == 0 else "",
    )
    head = Result(
        version=__version__,
        date=clock.utc().isoformat(),
        input=input_of(problem),
        environment=environment,
        ranks=convert(listed, tuple[Rank, ...]),
    )
    return checked(head)


def _mpi_library() -> str:
    return MPI.Get_library_version().split("\n")[0].strip("\0 ")


def _rank(world: World, placement: Placement, device: torch.device, grids: list[Grid]) -> Rank:
    return Rank(
        rank=world.rank,
        groups=tuple(groups_of(world.rank, grids)),
        host=world.host,
        interface=world.interface[0] or None,
        address=world.interface[1] or None,
        device=str(device),
        cpus=ranges(placement.cpus),
        threads=placement.threads,
    )


def _warnings(world: World, placement: Placement) -> list[str]:
    """Conditions that slow the machine down, counted over all ranks. Collective."""
    counts = {
        "share processors with another rank": placement.sharers > 0,
        "have more threads than processors": placement.threads > len(placement.cpus),
        "compute on CPUs although the node has GPUs": devices.unused(),
    }
    totals = {what: world.comm.allreduce(int(true)) for what, true in counts.items()}
    found = [f"{total} of {world.size} ranks {what}" for what, total in totals.items() if total]
    assumed = assumed_ranks()
    return [*found, f"{VARIABLE}: {assumed} ranks count as a node for gradients"] if assumed else found
