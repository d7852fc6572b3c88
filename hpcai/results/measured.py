"""What a test measured, and what ended before it: the two things that an entry of a result is built from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hpcai.record.entry import Row, Table
from hpcai.record.machine import Memory, Telemetry
from hpcai.workloads.comm.record import CollectiveRow
from hpcai.workloads.kernels.record import KernelRow


@dataclass(frozen=True)
class Measured:
    """A test that ran to its end: the raw record of its workload, memory of the ranks, telemetry of the nodes."""

    raw: Any
    memory: Memory
    telemetry: Telemetry | None = None


@dataclass(frozen=True)
class Stopped:
    """What a workload measured of a test until the run was to end; the same on all ranks that took part."""

    raw: Any


@dataclass(frozen=True)
class Before:
    """All that ended before a test, in the order of the input."""

    tests: Sequence[Row] = ()
    tables: Sequence[Table] = ()
    kernels: Sequence[KernelRow] = ()
    collectives: Sequence[CollectiveRow] = ()
