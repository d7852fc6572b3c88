"""Replacing files: a reader sees the old or the new file, whole; several files with their SHA256SUMS last."""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from hpcai.errors import HpcaiError
from hpcai.report import checksums


def replace(path: Path, data: bytes) -> None:
    """Write or replace a file: whoever reads it sees the old or the new one, whole. HpcaiError if it cannot be.

    What is no regular file, such as /dev/stdout or a pipe, is written into and stays what it is.
    """
    try:
        written_into = path.exists() and not path.is_file()
        if written_into:
            path.write_bytes(data)
    except OSError as error:
        raise _refused(path, error) from None
    if not written_into:
        _put(_staged(path, [data])[0], path)


def publish(folder: Path, contents: Mapping[str, Iterable[bytes]], others: Mapping[str, str]) -> None:
    """Replace files of a folder, and SHA256SUMS last. HpcaiError if they cannot be written.

    contents: by name, in parts. others: SHA-256 by path of all other files of the folder. Until everything new is on
    the disk, nothing is replaced.
    """
    staged: dict[Path, Path] = {}
    digests = dict(others)
    try:
        for name, parts in contents.items():
            staged[folder / name], digests[name] = _staged(folder / name, parts)
        _put(_staged(folder / checksums.NEXT, [checksums.text(digests).encode()])[0], folder / checksums.NEXT)
    except HpcaiError:
        for temporary in staged.values():
            temporary.unlink(missing_ok=True)
        raise
    for path, temporary in staged.items():
        _put(temporary, path)
    _put(folder / checksums.NEXT, folder / checksums.NAME)


def _staged(path: Path, parts: Iterable[bytes]) -> tuple[Path, str]:
    """A temporary file beside a path, with the data on the disk; and the SHA-256 of the data."""
    temporary, total = path.with_name(f".{path.name}"), sha256()
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        with os.fdopen(descriptor, "wb") as file:
            for part in parts:
                file.write(part)
                total.update(part)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise _refused(path, error) from None
    return temporary, total.hexdigest()


def _put(temporary: Path, path: Path) -> None:
    try:
        temporary.replace(path)
    except OSError as error:
        raise _refused(path, error) from None


def _refused(path: Path, error: OSError) -> HpcaiError:
    return HpcaiError(f"cannot write {path.absolute()}: {error.strerror}")
