"""SHA256SUMS: the SHA-256 of every file of a result folder, as `sha256sum -c SHA256SUMS` reads it; replaced last.

While files are replaced, SHA256SUMS.next has the digests of the new ones. After a kill each file is of one of the two.
"""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path, PurePosixPath

from hpcai.errors import DataError

NAME = "SHA256SUMS"
NEXT = f"{NAME}.next"
BROKEN_OFF = "BROKEN_OFF"  # written after the run has ended otherwise than in good order: why, and how to go on
LINE = re.compile(r"([0-9a-f]{64})  (\S(?:.*\S)?)")
BLOCK = 2**20


def sha256_of(path: Path) -> str:
    """SHA-256 (hexadecimal) of a file, read in blocks. OSError if it cannot be read."""
    total = sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            total.update(block)
    return total.hexdigest()


def files_below(folder: Path) -> Iterator[str]:
    """Paths, relative to the folder, of the files that SHA256SUMS lists.

    All but itself, symbolic links, temporary files, whose names begin with a dot, and what is written when the run
    has been lost.
    """
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        relative = Path(place).relative_to(folder)
        found = (str(PurePosixPath(relative / name)) for name in names if not name.startswith("."))
        yield from (name for name in found if name not in (NAME, NEXT, BROKEN_OFF) and not (folder / name).is_symlink())


def links(folder: Path, names: Iterable[str]) -> list[str]:
    """Those of some paths in a folder that are symbolic links, or lie behind one, which may lead out of the folder."""
    return [name for name in dict.fromkeys(names) if any((folder / part).is_symlink() for part in _parts(name))]


def _parts(name: str) -> Iterator[PurePosixPath]:
    """A path and the folders that it lies in, without the first."""
    path = PurePosixPath(name)
    yield from (path, *path.parents[:-1])


def text(digests: Mapping[str, str]) -> str:
    """The content of SHA256SUMS: SHA-256 by path."""
    return "".join(f"{digests[name]}  {name}\n" for name in sorted(digests))


def read(path: Path) -> dict[str, str]:
    """SHA-256 by path of a SHA256SUMS; empty if there is none. DataError names what is no line of it.

    A path that leads out of the folder, or stands twice, is refused.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise DataError(f"{path.name} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        match = LINE.fullmatch(line)
        if match is None or not _is_below(match[2]) or match[2] in found:
            raise DataError(f"{path.name}, line {number}: not the SHA-256 of a file of the folder")
        found[match[2]] = match[1]
    return found


def _is_below(name: str) -> bool:
    parts = name.split("/")
    return name.isprintable() and "" not in parts and not any(part.startswith(".") for part in parts)


class Digests:
    """Digests of the files of a folder. A file is read again only when its size, time or inode has changed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, tuple[tuple[int, ...], str]] = {}

    def of_others(self, replaced: Collection[str], given: Mapping[str, str]) -> dict[str, str]:
        """SHA-256 by path of each file that is there and is not replaced; of those `given` without reading them."""
        found: dict[str, str] = {}
        for name in {*files_below(self._folder)}.difference(replaced):
            with suppress(OSError):  # the verification tells which files are not listed
                found[name] = given.get(name) or self._of(name)
        return found

    def _of(self, name: str) -> str:
        path = self._folder / name
        facts = path.stat()
        stamp = (facts.st_size, facts.st_mtime_ns, facts.st_ino)
        if name not in self._known or self._known[name][0] != stamp:
            self._known[name] = (stamp, sha256_of(path))
        return self._known[name][1]
