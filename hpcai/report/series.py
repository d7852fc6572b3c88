"""series.h5: what a result knows over time, for whoever draws or compares it.

A group `test-<index>` for each test, in it the tables that the test has, each a group of vectors float64 of one length,
their unit as an attribute; NaN stands for what was not measured.

    curve       each validation: epoch, seconds, loss, quality; of a search that of each trial, with its number
    score       of a search: seconds, ops, error, regulated_score
    telemetry   of the first node: seconds, processors, memory_bytes, gpus, gpu_memory_bytes; where a node reports them
                received_between, sent_between, sent_within, received_nvlink, sent_nvlink
    telemetry/mean, telemetry/least, telemetry/most     the same of all nodes of the grid, where they are several
    telemetry/node-2, ...   the same of each further node, of a limited number, in the order of the result
"""

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from hpcai.machine.node_sensors import NAMES
from hpcai.record.entry import Row
from hpcai.record.machine import TRAFFIC, Telemetry
from hpcai.record.result import Result
from hpcai.workloads import registry

Line = Sequence[float | None]
Table = tuple[str, Sequence[str], list[Line]]  # name, columns, lines

UNITS = {
    "seconds": "s",
    "ops": "operation/s",
    "regulated_score": "operation/s",
    "memory_bytes": "byte",
    "gpu_memory_bytes": "byte",
    **dict.fromkeys(TRAFFIC, "byte/s"),
}
CURVE = ("epoch", "seconds", "loss", "quality")
UNREADABLE = (OSError, RuntimeError, LookupError, ValueError, SystemError)  # h5py's exceptions for a damaged file


def contents(result: Result) -> bytes:
    """The file's bytes; empty if the result has no time series."""
    vectors = dict(_vectors(result))
    if not vectors:
        return b""
    memory = io.BytesIO()
    with h5py.File(memory, "w") as file:
        for name, vector in vectors.items():
            dataset = file.create_dataset(name, data=vector)
            dataset.attrs["unit"] = _unit(name)
    return memory.getvalue()


def differences(path: Path, result: Result) -> Iterator[str]:
    """Differences of a series.h5 file from the result."""
    expected = dict(_vectors(result))
    if not path.is_file():
        yield f"{path.name} is no file"
        return
    try:
        with h5py.File(path) as file:
            found = dict(_links(file))
            wrong = {name for name in {*found} & {*expected} if not (found[name] and _same(file, name, expected[name]))}
    except UNREADABLE as error:
        yield f"{path.name} cannot be read: {error}"
        return
    for name in sorted(wrong | ({*found} ^ {*expected})):
        yield f"{path.name}, {name}: not what the result file says"


def _links(file: h5py.File) -> Iterator[tuple[str, bool]]:
    """All links of a file that are no groups, and whether each is a stored data set; links are not followed."""
    found: dict[str, Any] = {}
    file.visititems_links(found.__setitem__)  # opens no object: h5py turns errors in here into SystemError
    for name, link in found.items():
        own = isinstance(link, h5py.HardLink)
        if not own or not isinstance(file[name], h5py.Group):
            yield name, own


def _same(file: h5py.File, name: str, vector: Any) -> bool:
    """Whether a data set equals the vector; a data set of another size is not read."""
    stored = file[name]
    if not isinstance(stored, h5py.Dataset) or stored.external or stored.is_virtual:
        return False
    alike = stored.shape == vector.shape and stored.dtype == vector.dtype and stored.attrs.get("unit") == _unit(name)
    return alike and np.array_equal(stored[()], vector, equal_nan=True)


def _unit(name: str) -> str:
    return UNITS.get(name.rpartition("/")[2], "1")


def _vectors(result: Result) -> Iterator[tuple[str, Any]]:
    for test in result.tests:
        for table, columns, lines in _tables(test):
            for name, column in zip(columns, np.array(lines, np.float64).T, strict=True) if lines else ():
                yield f"test-{test.index}/{table}/{name}", column


def _tables(test: Row) -> Iterator[Table]:
    """Telemetry, and the workload's time series."""
    for name, lines in _sampled(test.telemetry) if test.telemetry else ():
        yield f"telemetry{name}", *_reported(lines)
    yield from registry.part(test.workload, "lines").series(test)


def _sampled(telemetry: Telemetry) -> Iterator[tuple[str, list[Line]]]:
    """Samples of the nodes, by the rest of the table's name."""
    yield "", [*telemetry.series]
    if telemetry.over_nodes:
        for kind in ("mean", "least", "most"):
            rows = zip(telemetry.over_nodes.seconds, getattr(telemetry.over_nodes, kind), strict=True)
            yield f"/{kind}", [(seconds, *values) for seconds, values in rows]
    for number, node in enumerate(telemetry.further, start=2):
        yield f"/node-{number}", [*node.series]


def _reported(lines: list[Line]) -> tuple[list[str], list[Line]]:
    """Columns and lines without the bytes per second that the node does not report at any time."""
    columns = ["seconds", *NAMES]
    known = {place for line in lines for place, value in enumerate(line) if value is not None}
    kept = [place for place, name in enumerate(columns) if name not in TRAFFIC or place in known]
    return [columns[place] for place in kept], [[line[place] for place in kept] for line in lines]
