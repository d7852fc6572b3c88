"""What a search keeps of each trial beside its journal, from which it is resumed: one line of JSON each, appended.

The line of a trial is written before that of the journal, so that each trial of the journal has one. A trial that is
trained anew has a second line; the last one holds.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw, Struct

from hpcai.errors import DataError
from hpcai.formulas.score import LARGEST
from hpcai.search.durations import Durations
from hpcai.search.group_totals import TrialFindings

NAME = "trials.jsonl"


class GroupTrial(Struct, frozen=True):
    """What a group found in a trial, and what its leader had counted since the search began when the trial returned.

    taken: networks that the leader had proposed in vain before that of the trial.
    """

    found: TrialFindings
    taken: Sequence[str]
    waits: Durations
    proposals: Durations
    rejected: int


class KeptTrial(Struct, frozen=True):
    """A trial as rank 0 keeps it: `group` is a GroupTrial, which only its leader reads.

    sha256: of its line in the journal. seconds: of the search, and utc: since 1970, when it was written. began: as utc,
    when the search began. requests, duplicates, busy_seconds: of the coordinator since then. interrupted: seconds of
    all interruptions. resumed: seconds of the search at which it was resumed.
    """

    trial: int
    sha256: str
    seconds: float
    utc: float
    began: float
    requests: int
    duplicates: int
    busy_seconds: float
    interrupted: float
    resumed: tuple[float, ...]
    group: Raw


_kept, _of_group = msgspec.json.Decoder(KeptTrial), msgspec.json.Decoder(GroupTrial)


def group_line(trial: GroupTrial) -> bytes:
    """The JSON of what a group measured; numbers that are not finite become the largest."""
    return json.dumps(_finite(msgspec.to_builtins(trial)), separators=(",", ":"), allow_nan=False).encode()


def group_of(kept: KeptTrial) -> GroupTrial:
    """What the group of a trial measured."""
    return _of_group.decode(kept.group)


def kept_line(kept: KeptTrial) -> bytes:
    """The line of a trial."""
    return msgspec.json.encode(kept)


def decoded(text: bytes) -> KeptTrial:
    """The trial of a line. ValueError for any other text."""
    return _kept.decode(text)


def read(path: Path) -> tuple[dict[int, tuple[bytes, KeptTrial]], bool]:
    """The last line of each trial, by its number, and whether the last line of the file is torn.

    Empty if there is no file. DataError names the file and the line that is none of a trial.
    """
    try:
        *lines, torn = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return {}, False
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from None
    found = ((line, _decoded(path, number, line)) for number, line in enumerate(lines, start=1))
    return {kept.trial: (line, kept) for line, kept in found}, bool(torn)


def _decoded(path: Path, number: int, text: bytes) -> KeptTrial:
    try:
        kept = decoded(text)
        group_of(kept)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}, line {number}: nothing that a search kept of a trial ({error})") from None
    return kept


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return LARGEST if isinstance(value, float) and not math.isfinite(value) else value
