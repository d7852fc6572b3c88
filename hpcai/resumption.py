"""Resuming a run: the result that it left, what must be the same, and what is told where it is not."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from msgspec import structs

from hpcai import clock
from hpcai.checkpoint import paths
from hpcai.errors import InputError
from hpcai.record.loading import load
from hpcai.record.machine import Environment
from hpcai.record.result import Result, Resumption
from hpcai.report import ended_tests
from hpcai.report.checksums import BROKEN_OFF
from hpcai.report.files import RESULT
from hpcai.results.assembly import ended
from hpcai.results.cells import cell

LOCK = ".lock"
SAME = ("ranks", "grids")
# What may differ: a training then goes on with other kernels, and its weights are no longer bit for bit the same.
TOLD = ("processor", "device", "mpi", "python", "packages", "source_sha256", "nodes", "accelerators")


def left(folder: Path) -> Result:
    """The result of a run that was broken off. InputError if there is none, or if all of its tests have ended."""
    if not (folder / RESULT).is_file():
        raise InputError(f"--resume {folder}: there is no {RESULT}; allowed: the folder of a run that was broken off")
    found = load(folder / RESULT)
    if found.summary is not None and found.summary.complete:
        _clear(folder, found)
        raise InputError(f"--resume {folder}: all of its {found.summary.planned} tests have ended")
    return ended_tests.with_kept(folder, found)


def _clear(folder: Path, complete: Result) -> None:
    """Remove what is kept to go on: the run was killed after its files were whole."""
    with suppress(OSError):  # it may belong to somebody else, and cannot be changed then
        descriptor = locked(folder)
        paths.remove(folder, [entry.index for entry in ended(complete)])
        ended_tests.remove(folder)
        for name in (BROKEN_OFF, LOCK):
            (folder / name).unlink(missing_ok=True)
        os.close(descriptor)


def locked(folder: Path) -> int:
    """A lock on a result folder, until the process ends. InputError where another run holds it."""
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise InputError(f"--resume {folder}: a run writes into it; allowed: a folder whose run has ended") from None
    except OSError:
        pass  # a file system without locks
    return descriptor


def going_on(before: Result, head: Result) -> Result:
    """The result to go on with; `head` is that of this job before its first test. InputError where it cannot go on."""
    for name in SAME:
        old, new = (getattr(each.environment, name) for each in (before, head))
        if old != new:
            raise InputError(f"cannot resume: {name} {cell(str(new))}; allowed: {cell(str(old))}, as before")
    if before.input.digest != head.input.digest or before.input.overrides != head.input.overrides:
        raise InputError("cannot resume: the input differs from that of the run")
    test = max((entry.index for entry in ended(before)), default=0) + 1
    differing = tuple(_differing(before.environment, head.environment))
    more = Resumption(date=clock.utc().isoformat(), test=test, differing=differing)
    return structs.replace(
        before, resumed=(*before.resumed, more), broken_off=None, summary=None, digest=None
    )


def _differing(before: Environment, now: Environment) -> list[str]:
    """What differs of machine and software, a line each."""
    pairs = ((name, getattr(before, name), getattr(now, name)) for name in TOLD)
    found = []
    for name, old, new in pairs:
        if isinstance(old, dict):
            both = ((key, old.get(key), new.get(key)) for key in {*old, *new})
            found += [f"{key}: {one} -> {other}" for key, one, other in both if one != other]
        elif old != new:
            found.append(f"{name}: {old} -> {new}")
    return [cell(line) for line in sorted(found)]
