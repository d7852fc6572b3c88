"""Copies of data files on one node: their folders, locks and checksums. Independent of MPI.

A copy is a folder with `files/`, `sums/` (the CRC-32 of each file) and a `lock`. The private copy of a job is locked
while the job lives. The kernel releases the lock when the process ends, however it ends, so that a private folder
without a lock is abandoned, and the next job removes it. A kept copy is locked only while it is filled, and never
removed.
"""

import fcntl
import os
import shutil
import stat
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import IO

from hpcai.errors import DataError, HpcaiError

PRIVATE = "-job-"  # in the names of private copies
BLOCK = 8 << 20


@dataclass(frozen=True)
class File:
    """A file to copy: its path, its name in the copy, and its bytes."""

    source: Path
    name: str
    nbytes: int


def files_below(base: Path, paths: Iterable[Path]) -> list[File]:
    """The files, named by their path relative to `base`, or to its folder if `base` is a file."""
    root = base if base.is_dir() else base.parent
    found = []
    for path in paths:
        with _readable(path):
            found.append(File(path, str(path.relative_to(root)), path.stat().st_size))
    return found


def user_folder() -> Path:
    """This user's folder for copies on this node, below $HPCAI_LOCAL, else $TMPDIR, else /tmp; created if missing."""
    variable = next((name for name in ("HPCAI_LOCAL", "TMPDIR") if os.environ.get(name)), None)
    root = Path(os.environ[variable]) if variable else Path("/tmp")
    folder = root / f"hpcai-{os.getuid()}"
    with placed(folder):
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise HpcaiError(f"{folder} is not a folder of this user; allowed: HPCAI_LOCAL names another place")
    return folder


@contextmanager
def placed(place: Path) -> Iterator[None]:
    """Turn an OSError inside the block into an error about the place."""
    try:
        yield
    except OSError as error:
        raise HpcaiError(
            f"cannot stage data to {place}: {error.strerror}; allowed: a writable place on the node in HPCAI_LOCAL"
        ) from error


@contextmanager
def _readable(source: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(f"cannot read {source}: {error.strerror}; allowed: a complete dataset") from error


class Copy:
    """Locked folder for the copy of one dataset: private to this job, or kept and locked only while it is filled."""

    def __init__(self, place: Path, lock: IO[bytes], keep: bool) -> None:
        self.place, self._lock, self._keep = place, lock, keep
        for name in ("files", "sums"):
            (place / name).mkdir(exist_ok=True)

    def filled(self) -> None:
        """Release a kept folder for other jobs."""
        if self._keep:
            self._lock.close()

    def close(self) -> None:
        """Remove the folder unless it is kept, and release the lock."""
        if not self._keep:
            remove(self.place)
        self._lock.close()


def claim(fingerprint: str, keep: bool) -> Copy:
    """A folder for the dataset with that fingerprint; waits while another job fills the same one.

    Removes the folders of jobs that were killed.
    """
    user = user_folder()
    with placed(user):
        with _locked(user):  # no other job may find the folder before it is locked
            _remove_abandoned(user)
            place = user / fingerprint[:16] if keep else _private_folder(user, fingerprint)
            place.mkdir(exist_ok=True)
            lock = None if keep else _locked(place)
        return Copy(place, lock or _locked(place), keep)


def _private_folder(user: Path, fingerprint: str) -> Path:
    return Path(tempfile.mkdtemp(prefix=f"{fingerprint[:16]}{PRIVATE}", dir=user))


def _locked(folder: Path, wait: bool = True) -> IO[bytes]:
    """The folder's lock, held until it is closed or the process ends; BlockingIOError if it is taken and not `wait`."""
    file = (folder / "lock").open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BaseException:
        file.close()
        raise
    return file


def _remove_abandoned(user: Path) -> None:
    """Remove the private folders of jobs that have ended."""
    for folder in user.glob(f"*{PRIVATE}*"):
        with suppress(BlockingIOError, FileNotFoundError), _locked(folder, wait=False):
            remove(folder)


def remove(folder: Path) -> None:
    """Remove a folder if it exists; several ranks may do so at once."""
    shutil.rmtree(folder, ignore_errors=True)


def check_space(place: Path, needed: int) -> None:
    """Raise HpcaiError unless `needed` bytes are free at `place`."""
    with placed(place):
        status = os.statvfs(place)
    free = status.f_bavail * status.f_frsize
    if needed > free:
        raise HpcaiError(
            f"staging needs {needed} bytes in {place.parent}, {free} are free; "
            "allowed: HPCAI_LOCAL names a place with more, or STAGE none"
        )


def is_whole(place: Path, file: File) -> bool:
    """Whether the copy has the size of the file and the CRC-32 that was stored when it was made."""
    copy, sums = place / "files" / file.name, place / "sums" / file.name
    try:
        same_size = not copy.is_symlink() and copy.stat().st_size == file.nbytes
        return same_size and sums.read_text() == _sum(copy)
    except OSError:
        return False


def _sum(path: Path) -> str:
    found, block = 0, memoryview(bytearray(BLOCK))
    with path.open("rb", buffering=0) as file:
        while size := file.readinto(block):
            found = zlib.crc32(block[:size], found)
    return f"{found:08x}"


def copy_file(place: Path, file: File) -> None:
    """Copy a file atomically; the copy is read again and compared."""
    target, sums = place / "files" / file.name, place / "sums" / file.name
    with placed(target):
        part = _part_of(target)
        try:
            found = _copied(file.source, part)
            if part.stat().st_size != file.nbytes or _sum(part) != found:
                raise DataError(f"the copy {target} is not {file.source}; allowed: a place that keeps what is written")
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
        sums.parent.mkdir(parents=True, exist_ok=True)
        sums.write_text(found)


def link_file(place: Path, file: File) -> None:
    """Link to a file that is not copied; an existing copy stays."""
    target = place / "files" / file.name
    with placed(target):
        if target.is_symlink() or not target.exists():
            part = _part_of(target)
            part.unlink(missing_ok=True)
            part.symlink_to(file.source.absolute())
            part.replace(target)


def _part_of(target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    return target.with_name(f".{target.name}.part")


def _copied(source: Path, part: Path) -> str:
    """CRC-32 of the bytes read: it detects faults and is several times faster than a cryptographic digest."""
    found, block = 0, memoryview(bytearray(BLOCK))
    with _opened(source) as origin, part.open("wb") as copy:
        while size := _read(origin, block, source):
            found = zlib.crc32(block[:size], found)
            copy.write(block[:size])
        copy.flush()
        os.fsync(copy.fileno())
    return f"{found:08x}"


def _opened(source: Path) -> FileIO:
    with _readable(source):
        return FileIO(source)


def _read(origin: FileIO, block: memoryview, source: Path) -> int:
    with _readable(source):
        return origin.readinto(block)
