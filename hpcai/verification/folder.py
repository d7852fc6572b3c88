"""The files of a result folder against SHA256SUMS: which are missing, altered, or not listed."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from math import inf
from pathlib import Path

from hpcai.errors import DataError
from hpcai.report import checksums
from hpcai.report.files import RESULT
from hpcai.results.cells import printable

SUMS, NEXT = checksums.NAME, checksums.NEXT
MOST_SHOWN = 20


def stamp(folder: Path) -> tuple[object, ...]:
    """What changes when a run replaces the files of a folder: SHA256SUMS, and whether the next one is there."""
    try:
        facts = (folder / SUMS).stat()
    except OSError:
        return ((folder / NEXT).exists(),)
    return facts.st_ino, facts.st_mtime_ns, (folder / NEXT).exists()


def linked(file: Path, names: Iterable[str]) -> list[str]:
    """Differences because a result file, one that lies beside it, or one that SHA256SUMS lists is a symbolic link."""
    folder = file.parent
    found = checksums.links(folder, (file.name, SUMS, NEXT, *names))
    if not found:
        with suppress(DataError):  # the comparison says what is wrong
            found = checksums.links(folder, (*checksums.read(folder / SUMS), *checksums.read(folder / NEXT)))
    return [f"{name} is a symbolic link: allowed are files in the folder of the result" for name in found[:MOST_SHOWN]]


def interruption(folder: Path) -> str:
    """Why the files do not belong together, if they were left while a run replaced them; empty if they were not.

    Each replaced file is then of SHA256SUMS or of SHA256SUMS.next, and not all are of SHA256SUMS.
    """
    if not (folder / NEXT).is_file():
        return ""
    try:
        before, after = checksums.read(folder / SUMS), checksums.read(folder / NEXT)
        changed = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
        found = {name: checksums.sha256_of(folder / name) for name in changed if (folder / name).is_file()}
    except (DataError, OSError):
        return ""  # the comparison says what cannot be read
    old = [name for name in found if before.get(name) == found[name]]
    new = [name for name in found if after.get(name) == found[name]]
    explained = {*old, *new} == {*found} and {*found} >= {*before}.intersection(changed)
    if not explained or (before and not new):
        return ""
    return f"the run ended, or still is, between the replacement of two files; new: {_shown(new)}; old: {_shown(old)}"


def differences(file: Path, compared: Iterable[str], most_bytes: float = inf) -> Iterator[str]:
    """Differences of the files of a folder from SHA256SUMS; none if there is no SHA256SUMS.

    compared: names of the files that a verification reads, which must be listed if they are there.
    most_bytes: files are read up to so many bytes in all, the smallest first; the others need only be there.
    """
    folder = file.parent
    if not _applies(file):
        return
    try:
        listed = checksums.read(folder / SUMS)
        found = [*_not_as_listed(folder, listed, most_bytes)]
    except (DataError, OSError) as error:
        yield str(error)
        return
    yield from found[:MOST_SHOWN]
    if len(found) > MOST_SHOWN:
        yield f"{len(found) - MOST_SHOWN} more files differ from {SUMS}"
    present = (name for name in (RESULT, *compared) if (folder / name).exists())
    yield from (f"{name} is not in {SUMS}" for name in dict.fromkeys(present) if name not in listed)


def _applies(file: Path) -> bool:
    """Whether a result file is that of its folder, and the folder has a SHA256SUMS."""
    return file.name == RESULT and (file.parent / SUMS).exists()


def _not_as_listed(folder: Path, listed: Mapping[str, str], most_bytes: float) -> Iterator[str]:
    sizes = {name: (folder / name).stat().st_size for name in listed if (folder / name).is_file()}
    ordered = sorted(sizes, key=lambda name: sizes[name])
    before = dict(zip(ordered, accumulate(sizes[name] for name in ordered), strict=True))
    for name, digest in listed.items():
        if name not in sizes:
            yield f"{name} is missing: {SUMS} lists it"
        elif before[name] <= most_bytes and checksums.sha256_of(folder / name) != digest:
            yield f"{name} is altered: {SUMS} lists another SHA-256"


def notes(file: Path) -> list[str]:
    """What a reader should know of the files beside a result file."""
    if not _applies(file):
        return [f"no {SUMS} of this result lies beside it: files that are missing cannot be named"]
    try:
        listed = checksums.read(file.parent / SUMS)
    except DataError:
        return []
    others = sorted({*checksums.files_below(file.parent)} - {*listed})
    return [f"not in {SUMS}: {_shown(others)}"] if others else []


def _shown(names: Sequence[str]) -> str:
    more = len(names) - MOST_SHOWN
    shown = ", ".join(map(printable, names[:MOST_SHOWN])) or "none"
    return shown + (f" and {more} more" if more > 0 else "")
