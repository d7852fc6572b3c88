"""Measurements of a test, and the earlier tests: the two inputs of an entry."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hpcai.record.entry import Row, Table
from hpcai.record.machine import Memory, Telemetry
from hpcai.record.wall_time import WallTime
from hpcai.workloads.comm.record import CollectiveRow
from hpcai.workloads.kernels.record import KernelRow


@dataclass(frozen=True)
class Measured:
    """Measurements of a complete test: raw record of its workload, memory of ranks, telemetry of nodes, time."""

    raw: Any
    memory: Memory
    telemetry: Telemetry | None = None
    wall: WallTime | None = None


@dataclass(frozen=True)
class Stopped:
    """A workload's measurements of a test up to a shutdown; the same on all ranks that took part."""

    raw: Any


@dataclass(frozen=True)
class Before:
    """All earlier tests, in the order of the input."""

    tests: Sequence[Row] = ()
    tables: Sequence[Table] = ()
    kernels: Sequence[KernelRow] = ()
    collectives: Sequence[CollectiveRow] = ()
