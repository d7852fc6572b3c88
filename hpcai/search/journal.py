"""What a search has tried: a line of JSON for each trial that ended, only ever added to.

A line that a crash has torn off is the last one, and is passed over; any other that is no trial is an error.
"""

import json
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from hpcai.errors import DataError
from hpcai.search.messages import line

Json = dict[str, Any]


@dataclass(frozen=True)
class Trial:
    """One trial, as its group tells it: times in seconds from the beginning of the search, operations by rule `aiperf`.

    `morphisms` lead from the parent's network to this one; a trial without parent begins with the initial network, and
    `operation` is the first of them, or `initial`. `curve` has an entry for each epoch, `end` the reason why there are
    no more; where the search's time was over the last one was not validated. Operations are those executed in training,
    by all ranks of the group; seconds of training, validation and warm-up are its leader's.
    """

    id: int
    worker: int
    round: int
    parent: int | None
    operation: str
    morphisms: list[Json]
    hyperparameters: dict[str, int]
    given: float
    started: float
    returned: float
    planned_epochs: int
    steps: int
    executed_operations: int
    curve: list[Json]
    training_seconds: float
    validation_seconds: float
    warmup_seconds: float
    deviation: float
    nbytes: int
    planned_bytes: int
    end: str


def add(path: Path, trial: Trial) -> None:
    """Write the line of a trial, at once, behind all others.

    DataError where the file system refuses, ValueError for a number that is not finite.
    """
    write(path, trial.id, written(trial))


def written(trial: Trial) -> bytes:
    """The line of a trial. ValueError for a number that is not finite."""
    return line(asdict(trial))


def write(path: Path, id_: int, line: bytes) -> None:
    """As `add`, a line that is written out."""
    try:
        count = _appended(path, line + b"\n")
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from None
    if count != len(line) + 1:
        raise DataError(f"{path}: there is no room for trial {id_}")


def _appended(path: Path, line: bytes) -> int:
    """How many bytes one write took."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        return os.write(descriptor, line)
    finally:
        os.close(descriptor)


def read(path: Path) -> list[Trial]:
    """All trials in the order in which they ended. DataError names the file, and the line that is none."""
    try:
        *lines, _ = path.read_bytes().split(b"\n")
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from None
    return [_trial(path, number, line) for number, line in enumerate(lines, start=1)]


def _trial(path: Path, number: int, line: bytes) -> Trial:
    try:
        trial = Trial(**json.loads(line))
        _check(trial)
    except (ValueError, TypeError, RecursionError) as error:
        raise DataError(f"{path}, line {number}: not a trial of a search ({error})") from None
    return trial


def _check(trial: Trial) -> None:
    for field in fields(Trial):
        value = getattr(trial, field.name)
        if isinstance(value, bool) or not isinstance(value, _allowed(field.type)):
            raise TypeError(f"{field.name} is {value!r}")


def _allowed(kind: Any) -> Any:
    """What a value of a field may be: JSON does not tell 1.0 from 1, nor what a list holds."""
    return int | float if kind is float else {list[Json]: list, dict[str, int]: dict}.get(kind, kind)
