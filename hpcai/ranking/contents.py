"""Contents of a result: the digests of all files that its verification reads, of which none may be too large."""

import stat
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path

from hpcai.errors import InputError
from hpcai.record.result import Result
from hpcai.report import files
from hpcai.workloads import registry

MOST_BYTES = 64 * 2**20  # of a JSON or text file
MOST_BYTES_OF_TABLES = 8 * 2**30  # of an HDF5 file
BLOCK = 2**20


def regular(path: Path) -> None:
    """InputError for what is no file, or is too large to be read."""
    try:
        facts = path.stat()
    except OSError as error:
        raise InputError(f"{path.name} cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(facts.st_mode):
        raise InputError(f"{path.name} is no file")
    most = MOST_BYTES_OF_TABLES if path.suffix == ".h5" else MOST_BYTES
    if facts.st_size > most:
        raise InputError(f"{path.name} has {facts.st_size} bytes; allowed: {most}")


def digest(path: Path) -> str:
    """SHA-256 of a file; InputError if it cannot be read."""
    regular(path)
    total = sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(BLOCK):
                total.update(block)
    except OSError as error:
        raise InputError(f"{path.name} cannot be read: {error.strerror}") from None
    return total.hexdigest()


def digests(path: Path, result: Result) -> dict[str, str]:
    """By name the digest of a result file and of those beside it; empty for a file that is not there."""
    folder = path.parent
    beside = {name: folder / name for name in _beside(result)}
    found = {name: digest(file) if file.exists() else "" for name, file in beside.items()}
    return {"": digest(path), **found}


def name_of(found: Mapping[str, str], *more: str) -> str:
    """A digest of all contents, and of what else a verdict depends on."""
    return sha256(repr((sorted(found.items()), more)).encode()).hexdigest()


def _beside(result: Result) -> Iterator[str]:
    yield from files.names()
    yield files.SERIES
    for test in result.tests:
        part = registry.optional_part(test.workload, "files")
        yield from part.names(test) if part else ()
