"""The result files below the paths of the command line."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hpcai.ranking.submission import Apart

RESULT, REPORT = "result.json", "report.txt"
Place = tuple[int, int]  # device and number of a folder


@dataclass
class Collected:
    """Files in the order in which they were found, and what could not be read."""

    files: list[Path] = field(default_factory=list)
    apart: list[Apart] = field(default_factory=list)
    readable: bool = False


def collect(paths: Sequence[str]) -> Collected:
    """The files of all paths; a file or folder that is reached twice is taken once."""
    found, visited = Collected(), set[Place]()
    for path in map(Path, paths):
        try:
            is_folder = path.is_dir()
            path.stat()
        except (OSError, ValueError) as error:  # ValueError: a path with a null byte
            found.apart.append(Apart(str(path), _why(error)))
            continue
        files = [*_walked(path, visited, found)] if is_folder else [path]
        found.readable = found.readable or os.access(path, os.R_OK)
        found.files += files
    found.files = [*dict.fromkeys(found.files)]
    return found


def _walked(top: Path, visited: set[Place], found: Collected) -> Iterator[Path]:
    """Result files of a folder and those below it. Each folder once, so that links to folders cannot form a loop."""
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        try:
            facts = folder.stat()
            with os.scandir(folder) as entries:
                names = sorted((entry.name, _is_folder(entry)) for entry in entries)
        except OSError as error:
            found.apart.append(Apart(str(folder), _why(error)))
            continue
        if (facts.st_dev, facts.st_ino) in visited:
            continue
        visited.add((facts.st_dev, facts.st_ino))
        waiting += [folder / name for name, is_folder in reversed(names) if is_folder]
        yield from (folder / name for name in _chosen([name for name, is_folder in names if not is_folder]))


def _chosen(names: Sequence[str]) -> list[str]:
    """The result of a folder, else its report."""
    return next(([name] for name in (RESULT, REPORT) if name in names), [])


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    """Whether a name is a folder or leads to one; a link that leads to itself does not."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def _why(error: OSError | ValueError) -> str:
    return f"cannot be read: {(error.strerror if isinstance(error, OSError) else None) or error}"
