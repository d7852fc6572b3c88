"""Contents of a result: the digests of all files that its verification reads, of which none may be too large."""

import stat
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path

from hpcai.errors import InputError
from hpcai.record.result import Result
from hpcai.report import checksums
from hpcai.verification import folder as verification
from hpcai.verification import verify

MOST_BYTES = 64 * 2**20  # of a JSON or text file
MOST_BYTES_OF_TABLES = 8 * 2**30  # of an HDF5 file, or of weights


def regular(path: Path) -> None:
    """InputError for what is no file, or is too large to be read."""
    try:
        facts = path.stat()
    except OSError as error:
        raise InputError(f"{path.name} cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(facts.st_mode):
        raise InputError(f"{path.name} is no file")
    most = MOST_BYTES_OF_TABLES if path.suffix in (".h5", ".safetensors", ".pt") else MOST_BYTES
    if facts.st_size > most:
        raise InputError(f"{path.name} has {facts.st_size} bytes; allowed: {most}")


def digest(path: Path) -> str:
    """SHA-256 of a file; InputError if it cannot be read."""
    regular(path)
    try:
        return checksums.sha256_of(path)
    except OSError as error:
        raise InputError(f"{path.name} cannot be read: {error.strerror}") from None


def digests(path: Path, result: Result) -> dict[str, str]:
    """By name the digest of a result file and of those beside it; empty for a file that is not there."""
    folder = path.parent
    if linked := verification.linked(path, verify.beside(result)):
        raise InputError(linked[0])
    beside = {name: folder / name for name in (*verify.beside(result), *_listed(folder))}
    found = {name: digest(file) if file.exists() else "" for name, file in beside.items()}
    return {"": digest(path), **found}


def name_of(found: Mapping[str, str], *more: str) -> str:
    """A digest of all contents, and of what else a verdict depends on."""
    return sha256(repr((sorted(found.items()), more)).encode()).hexdigest()


def _listed(folder: Path) -> Iterator[str]:
    """SHA256SUMS and the files that it lists; DataError if it is none."""
    if (folder / checksums.NAME).exists():
        regular(folder / checksums.NAME)
    yield from (checksums.NAME, checksums.NEXT, *checksums.read(folder / checksums.NAME))
