"""Folders of cached machine code, which runs when it is loaded: only this user or root may have written it."""

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

HERE = Path(__file__).resolve().parent  # folder of all kernels
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_OF_USER = "hpcai-code-{}"  # folder for temporary files, of the user with this number

refused: dict[Path, str] = {}  # folders that were not used, and why


class Damaged(OSError):
    """A cached file that is not what was written."""


def folder(name: str, place: str) -> Path | None:
    """Cache folder `name` below the path in variable `place`, or a default one; None if it cannot be written.

    A folder that others own or may write is refused; then machine code is below this user's temporary folder.
    """
    for root in _roots(place):
        found = root / name
        with suppress(OSError):
            root.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                found.mkdir(mode=0o755)
            if os.access(found, os.W_OK) and _own(found):
                return found
    return None


def local_folder(name: str) -> Path:
    """Cache folder `name` on this node, for compilers that others provide; a new one if others may have written it."""
    with suppress(OSError):
        root = Path(tempfile.gettempdir()) / _OF_USER.format(os.geteuid())
        found = root / name
        for path in (root, found):
            with suppress(FileExistsError):
                path.mkdir(mode=0o755)
        if os.access(found, os.W_OK) and _own(root) and _own(found):
            return found
    return Path(tempfile.mkdtemp(prefix=f"hpcai-{name}-"))


def read(path: Path) -> bytes:
    """Content of a file as `write` wrote it. Damaged if it is anything else, or others may have written it."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        if why := _foreign(os.fstat(file.fileno())):
            raise Damaged(f"{path} {why}")
        digest, data = file.read(32), file.read()
    if sha256(data).digest() != digest:
        raise Damaged(f"{path} is damaged")
    return data


def write(path: Path, data: bytes) -> None:
    """Write or replace a file atomically; ranks of other nodes may write it as well."""
    unfinished = path.with_name(f"{path.name}.{uuid4().hex}")
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        with os.fdopen(descriptor, "wb") as file:
            file.write(sha256(data).digest() + data)
        unfinished.replace(path)
    except OSError:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise


def _own(found: Path) -> bool:
    facts = found.lstat()
    why = _foreign(facts) if stat.S_ISDIR(facts.st_mode) else "is no folder"
    if why:
        refused[found] = why
    return not why


def _foreign(facts: os.stat_result) -> str:
    """Why the owner of this process need not have written a file or folder; empty if they or root have."""
    if facts.st_uid not in (os.geteuid(), 0):
        return f"belongs to user {facts.st_uid}"
    return "may be written by others" if facts.st_mode & WRITABLE_BY_OTHERS else ""


def _roots(place: str) -> Iterator[Path]:
    """Candidate paths: as the user says, else beside the sources, else the user's cache; else a temporary folder."""
    if os.environ.get(place):
        yield Path(os.environ[place])
    else:
        yield HERE / "__pycache__"
        with suppress(RuntimeError):  # the user has no home folder
            yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hpcai"
    if refused:
        yield Path(tempfile.gettempdir()) / _OF_USER.format(os.geteuid())
