"""Made-up records of the machine, and records with altered fields."""

from typing import Any, TypeVar

from msgspec import convert, json

from hpcai.machine.node_sensors import NAMES
from hpcai.record.machine import Environment, Memory, Quantities, Telemetry
from hpcai.record.record import Record
from hpcai.results.alterations import Alteration, changed, together

R = TypeVar("R", bound=Record)
MEMORY = Memory(
    peak_bytes=300 * 2**20,
    baseline_bytes=200 * 2**20,
    device_peak_bytes=0,
    planned_bytes=310 * 2**20,
    whole_run=False,
    accelerated=False,
)
ON_GPU = Memory(
    peak_bytes=300 * 2**20,
    baseline_bytes=200 * 2**20,
    device_peak_bytes=2**30,
    planned_bytes=2**31,
    whole_run=False,
    accelerated=True,
)
UNKNOWN = (None,) * (len(NAMES) - 2)
TELEMETRY = Telemetry(  # of one node without GPUs, in two samples
    nodes=1,
    samples=2,
    interval=0.5,
    average=Quantities(processors=0.75, memory_bytes=1.5e9, gpus=None, gpu_memory_bytes=None),
    maximum=Quantities(processors=1.0, memory_bytes=2e9, gpus=None, gpu_memory_bytes=None),
    series=((0.5, 0.5, 1e9, *UNKNOWN), (1.0, 1.0, 2e9, *UNKNOWN)),
)


def environment(**changes: Any) -> Environment:
    """Two ranks on one node without GPUs, except for `changes`."""
    found = {
        "ranks": 2,
        "nodes": 1,
        "accelerators": 0,
        "processor": "a processor",
        "cpus": 2,
        "memory_bytes": 2**34,
        "device": "cpu",
        "system": "Linux",
        "python": "3.12",
        "mpi": "an MPI",
        "packages": {},
        "grids": [],
        "idle": [],
        "warnings": [],
    }
    return convert({**found, **changes}, Environment)


def altered(record: R, *alterations: Alteration) -> R:
    """The record with altered JSON; msgspec.ValidationError if that is not a valid record."""
    found = plain(record)
    together(*alterations)(found)
    return convert(found, type(record))


def plain(value: Any) -> Any:
    """A record as JSON."""
    return json.decode(json.encode(value))


def with_fields(record: R, **fields: Any) -> R:
    """The record with other values of some fields."""
    return altered(record, *(changed(name, plain(value)) for name, value in fields.items()))
