"""The plan: memory of a rank compared with what is available, and seconds, for each test; without MPI."""

import importlib
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch

from hpcai import estimate
from hpcai.errors import InputError
from hpcai.estimate import Rank
from hpcai.inputfile import Case, Problem
from hpcai.machine import caches, launcher, memory
from hpcai.machine import device as devices
from hpcai.machine.memory import Limit
from hpcai.plan.machine import described
from hpcai.plan.node import THIS_ONE, PlannedNode
from hpcai.plan.requirements import requirements
from hpcai.preflight.case_checks import check
from hpcai.preflight.library_loading import load
from hpcai.workloads.registry import workload

GIB = 2**30
MPI_BYTES = 16 * 2**20  # bytes of MPI in a process, where they cannot be measured
PEERS_BYTES = 4 * 2**20  # additional bytes with several ranks: shared memory
BYTES_AFTER_TABLES = 48 * 2**20  # bytes that libraries keep for a table's many shapes: plans and machine code
MPI_SECONDS = 60.0
PURPOSES = {"earlier tables": "kept by libraries after the tables before this test"}  # memory added by this module
MEASURE_MPI = """
import mpi4py
mpi4py.rc.initialize = False
from mpi4py import MPI
from hpcai.machine.memory import resident
before = resident()
MPI.Init()
print(resident() - before)
MPI.Finalize()
"""


@dataclass(frozen=True)
class PlannedTest:
    """What a test needs: steps of a model (None: it trains none), bytes of a rank by purpose, seconds by phase.

    nbytes: of a rank, the baseline included. lack: why the test does not fit, empty if it does; then, or if no
    step can be timed here, it has no phases.
    """

    case: Case
    steps: int | None
    memory: Mapping[str, int]
    nbytes: int
    phases: Mapping[str, float]
    lack: str

    @property
    def seconds(self) -> float:
        """Time of all phases."""
        return sum(self.phases.values())


@dataclass(frozen=True)
class Plan:
    """The tests of a problem on `ranks` ranks, `node_ranks` of them on each node; `baseline`: bytes of a bare rank.

    notes: the nodes that are planned for, and how this machine differs from them.
    """

    ranks: int
    node_ranks: int
    processors: int
    baseline: int
    limit: Limit
    tests: tuple[PlannedTest, ...]
    notes: tuple[str, ...] = ()


def rank_of(device: torch.device, free: int, node_ranks: int, threads: int) -> Rank:
    """A rank of a node like this one, whose ranks have `free` bytes and `threads` threads each."""
    return Rank(threads, free, node_ranks, caches.last_level(), device.type == "cuda")


def rows(case: Case, device: torch.device, rank: Rank) -> dict[str, int]:
    """Bytes of a rank of a case by purpose."""
    return requirements(case.workload).memory(case, device, rank)


def bytes_after_tables(cases: Sequence[Case], case: Case) -> dict[str, int]:
    """Bytes that libraries keep after tables before a case; nothing without tables."""
    tables = any(not workload(other.workload).digit and other.index < case.index for other in cases)
    return {"earlier tables": BYTES_AFTER_TABLES} if tables else {}


def refuse(cases: Sequence[Case], device: torch.device, baseline: int, limit: Limit, rank: Rank) -> None:
    """Raise InputError, naming every test whose ranks need more than `limit` bytes each, the baseline included."""
    needs = [(case, rows(case, device, rank) | bytes_after_tables(cases, case)) for case in cases]
    wrong = [lack for case, needed in needs if (lack := shortage(case, needed, baseline, limit))]
    if wrong:
        raise InputError("; ".join(wrong))


def shortage(case: Case, needed: Mapping[str, int], baseline: int, limit: Limit) -> str:
    """Reason why a test does not fit into memory; empty if it does."""
    whole = baseline + estimate.total(needed)
    if whole <= limit.nbytes:
        return ""
    largest = sorted(needed.items(), key=lambda row: -row[1])[:3]
    purposes = ", ".join(f"{name} {nbytes / GIB:.3f}" for name, nbytes in [("process", baseline), *largest])
    return (
        f"test {case.index} does not fit: a rank needs {whole / GIB:.3f} GiB ({purposes}); "
        f"allowed: {limit.nbytes / GIB:.3f} GiB, by {limit.source}; {requirements(case.workload).cure(case)}"
    )


def plan(problem: Problem, ranks: int, node: PlannedNode = THIS_ONE) -> Plan:
    """The plan of a problem on `ranks` ranks of such nodes; InputError if their description is impossible."""
    machine = described(node, ranks)
    devices.prepare(machine.here, min(machine.threads, machine.cores_here))
    cases = problem.cases(ranks, machine.gpus)
    baseline = mpi_bytes() + PEERS_BYTES + load(cases, machine.here, compiled=False)
    check(cases, machine.here)
    limit = machine.limit(memory.resident())
    held = 0 if machine.gpus else baseline
    rank = Rank(
        machine.threads, max(0, limit.nbytes - held), machine.ranks, caches.last_level(), machine.gpus > 0, machine.link
    )

    def planned(case: Case) -> PlannedTest:
        crowd = 1.0 if machine.gpus else _ranks_per_core(case, machine.ranks, machine.cores)
        kept = bytes_after_tables(cases, case)
        return planned_test(case, machine.device, held, limit, rank, crowd, kept, machine.timed)

    return Plan(ranks, machine.ranks, machine.cores, held, limit, tuple(map(planned, cases)), machine.notes(ranks))


def _ranks_per_core(case: Case, here: int, processors: int) -> float:
    """Number of ranks of a test that share a core, with `here` ranks on the node; idle ranks take no time."""
    active = case.groups * case.degree if "GROUPS" in case.settings else here
    return max(1.0, min(here, active) / processors)


@lru_cache
def mpi_bytes() -> int:
    """Memory of MPI in a process, measured in a separate process; its library is loaded here."""
    environment = {**launcher.alone(os.environ), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        mpi4py = importlib.import_module("mpi4py")
        mpi4py.rc.initialize = mpi4py.rc.finalize = False  # a launcher may wait for a process that never starts MPI
        importlib.import_module("hpcai.training.stages")  # what a rank has loaded, without starting MPI
        measured = subprocess.run(
            [sys.executable, "-P", "-c", MEASURE_MPI],
            env=environment,
            capture_output=True,
            text=True,
            timeout=MPI_SECONDS,
            check=True,
        )
        return int(measured.stdout)
    except (ImportError, RuntimeError, OSError, ValueError, subprocess.SubprocessError):
        return MPI_BYTES


def planned_test(
    case: Case,
    device: torch.device,
    baseline: int,
    limit: Limit,
    rank: Rank,
    crowd: float = 1.0,
    before: Mapping[str, int] | None = None,
    timed: bool = True,
) -> PlannedTest:
    """The plan of one case on ranks like `rank`.

    `crowd` ranks share a processor; `before` are bytes kept by libraries after earlier tests. timed: whether steps can
    be timed here; else it has no phases.
    """
    needs, needed = requirements(case.workload), {**rows(case, device, rank), **(before or {})}
    lack = shortage(case, needed, baseline, limit)
    taken = needs.seconds(case, device, rank, crowd) if timed and not lack else {}
    return PlannedTest(case, needs.steps(case), needed, baseline + estimate.total(needed), taken, lack)
