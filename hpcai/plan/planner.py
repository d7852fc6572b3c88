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
from hpcai.machine.affinity import cores, own_cpus
from hpcai.machine.memory import Limit
from hpcai.plan.requirements import requirements
from hpcai.preflight.case_checks import check
from hpcai.preflight.library_loading import load
from hpcai.workloads.registry import workload

GIB = 2**30
CROWDED = 8  # at most so many ranks on each core of a node
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

    nbytes: of a rank, the baseline included. lack: why the test does not fit, empty if it does; then it has no phases.
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
    """The tests of a problem on `ranks` ranks, `node_ranks` of them on each node; `baseline`: bytes of a bare rank."""

    ranks: int
    node_ranks: int
    processors: int
    baseline: int
    limit: Limit
    tests: tuple[PlannedTest, ...]


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


def limit_of_rank(device: torch.device, node_ranks: int) -> Limit:
    """Bytes that a rank like this one may use: of its GPU, or an equal share of the node's memory."""
    if device.type == "cuda":
        return Limit(devices.free_memory(device), f"the free memory of {devices.name(device)}")
    free = memory.available()
    return Limit(free.nbytes // node_ranks, _shared(free.source, node_ranks))


def _shared(source: str, ranks: int) -> str:
    return f"{source}, shared by {ranks} ranks" if ranks > 1 else source


def plan(problem: Problem, ranks: int) -> Plan:
    """The plan of a problem on `ranks` ranks of nodes like this one."""
    device, gpus, processors = devices.first(), devices.accelerators(), len(cores(own_cpus()))
    here = ranks_of_node(ranks, gpus, 1) if gpus else ranks_of_node(ranks, processors, CROWDED)
    threads = max(1, processors // here)
    devices.prepare(device, threads)
    cases = problem.cases(ranks, gpus)
    baseline = mpi_bytes() + PEERS_BYTES + load(cases, device, compiled=False)
    check(cases, device)
    sharers, own = (1, 0) if gpus else (here, memory.resident())
    free = limit_of_rank(device, 1)
    limit = Limit((free.nbytes + own) // sharers, _shared(free.source, sharers))
    held = 0 if gpus else baseline
    rank = rank_of(device, max(0, limit.nbytes - held), here, threads)
    crowds = {case.index: 1.0 if gpus else _ranks_per_core(case, here, processors) for case in cases}
    tests = (
        planned_test(case, device, held, limit, rank, crowds[case.index], bytes_after_tables(cases, case))
        for case in cases
    )
    return Plan(ranks, here, processors, held, limit, tuple(tests))


def _ranks_per_core(case: Case, here: int, processors: int) -> float:
    """Number of ranks of a test that share a core, with `here` ranks on the node; idle ranks take no time."""
    active = case.groups * case.degree if "GROUPS" in case.settings else here
    return max(1.0, min(here, active) / processors)


def ranks_of_node(ranks: int, processors: int, most: int) -> int:
    """Number of ranks on a node: as many as a launcher started here, else all that one node can hold.

    `processors` are the node's GPUs or cores; with more than `most` ranks for each, several nodes are assumed.
    """
    local = next((int(os.environ[name]) for name in launcher.LOCAL_SIZES if os.environ.get(name, "").isdecimal()), 0)
    return local or (ranks if ranks <= most * processors else processors)


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
) -> PlannedTest:
    """The plan of one case on ranks like `rank`.

    `crowd` ranks share a processor; `before` are bytes kept by libraries after earlier tests.
    """
    needs, needed = requirements(case.workload), {**rows(case, device, rank), **(before or {})}
    lack = shortage(case, needed, baseline, limit)
    taken = needs.seconds(case, device, rank, crowd) if not lack else {}
    return PlannedTest(case, needs.steps(case), needed, baseline + estimate.total(needed), taken, lack)
