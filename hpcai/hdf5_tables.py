"""Tables in HDF5 files that a run writes and a verification reads, as files from anywhere."""

import io
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcai.errors import HpcaiError

UNREADABLE = (OSError, RuntimeError, LookupError, TypeError, ValueError)  # h5py's exceptions for a damaged file
Table = NDArray[Any]


def write(path: Path, tables: Mapping[str, Table], attributes: Mapping[str, Any] | None = None) -> None:
    """Write compressed data sets and attributes of the file; replaces the file as a whole. HpcaiError if that fails."""
    temporary = path.with_name(f".{path.name}")
    try:
        temporary.write_bytes(_contents(tables, attributes or {}))
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise HpcaiError(f"cannot write {path}: {error.strerror}") from None


@contextmanager
def telling() -> Iterator[None]:
    """A file that cannot be written is told on stderr; the test goes on, and `--verify` names the missing file."""
    try:
        yield
    except HpcaiError as error:
        print(f"hpcai: {error}", file=sys.stderr, flush=True)


def _contents(tables: Mapping[str, Table], attributes: Mapping[str, Any]) -> memoryview:
    """The file's bytes: written at once, since the HDF5 library does not report why a write failed."""
    import h5py

    memory = io.BytesIO()
    with h5py.File(memory, "w") as file:
        for name, table in tables.items():
            file.create_dataset(name, data=table, compression="gzip" if table.size else None)
        file.attrs.update(attributes)
    return memory.getbuffer()  # not a copy


def read(path: Path, expected: Mapping[str, tuple[str, tuple[int, ...]]]) -> dict[str, Table]:
    """The data sets of a file, of exactly these names, types and shapes. One of UNREADABLE for any other content."""
    import h5py

    with h5py.File(path) as file:
        if others := sorted({*file} - {*expected}):
            raise ValueError(f"{others[0][:40]!r}; allowed: {', '.join(expected)}")
        return {name: data_set(file, name, kind, shape) for name, (kind, shape) in expected.items()}


def data_set(file: Any, name: str, kind: str, whole: tuple[int, ...]) -> Table:
    """A data set stored in the file itself; a small file may claim any size, and a link may lead anywhere."""
    import h5py

    if not isinstance(file.get(name, getlink=True), h5py.HardLink):
        raise ValueError(f"{name} are not in the file")
    found = file[name]
    if not isinstance(found, h5py.Dataset) or found.external or found.is_virtual:
        raise ValueError(f"{name} are not a data set of the file")
    if found.shape != whole or found.dtype != np.dtype(kind):
        raise ValueError(f"{name} are {found.dtype} {found.shape}; allowed: {np.dtype(kind)} {whole}")
    if any(part > size for part, size in zip(found.chunks or whole, whole, strict=True)):
        raise ValueError(f"{name} in chunks of {found.chunks}")
    table: Table = found[()]
    return table
