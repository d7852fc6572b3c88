"""The journal of a search contains the appended trials, also after a crash."""

import json
from pathlib import Path

import pytest
from msgspec import to_builtins
from trial_records import TRIAL, trial

from hpcai.errors import DataError
from hpcai.networks.morphism import Deepen
from hpcai.search.journal import append, append_line, read
from hpcai.search.messages import line

SECOND = trial(id=2, parent=1, operation="deepen", morphisms=(Deepen("stem_relu", 3),), end="lost")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    for each in (TRIAL, SECOND):
        append(tmp_path / "history.jsonl", each)
    return tmp_path / "history.jsonl"


def test_appended_trials_are_read(path: Path) -> None:
    assert read(path) == [TRIAL, SECOND]
    assert [json.loads(line)["id"] for line in path.read_text().splitlines()] == [1, 2]


def test_written_lines_never_change(path: Path) -> None:
    before = path.read_bytes()
    append(path, TRIAL)
    assert path.read_bytes()[: len(before)] == before


@pytest.mark.parametrize("kept", [0, 1, 40, -1])
def test_a_cut_last_line_is_ignored(path: Path, kept: int) -> None:
    first, second, _ = path.read_bytes().split(b"\n")
    path.write_bytes(first + b"\n" + second[:kept])
    assert read(path) == [TRIAL]


def test_a_line_cut_within_a_character_is_ignored(path: Path) -> None:
    path.write_bytes(path.read_bytes() + '{"end": "ü'.encode()[:-1])
    assert read(path) == [TRIAL, SECOND]


def changed(**values: object) -> bytes:
    return json.dumps({**to_builtins(TRIAL), **values}).encode()


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[]",
        b"[1, 2]",
        b"7",
        b"\xff\xfe",
        b"[" * 100_000,
        json.dumps(to_builtins(TRIAL)).encode()[:-9],
        changed(more=1),
        changed(id="1"),
        changed(id=None),
        changed(id=1.0),
        changed(id=0),
        changed(round=True),
        changed(given="now"),
        changed(given=float("nan")),
        changed(morphisms={}),
        changed(morphisms=[{"operation": "shrink"}]),
        changed(hyperparameters=[]),
        changed(end="tired"),
        json.dumps({"id": 3}).encode(),
    ],
    ids=str,
)
def test_any_other_invalid_line_is_named(path: Path, line: bytes) -> None:
    first, second, _ = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([first, line, second, b""]))
    with pytest.raises(DataError, match=r"history\.jsonl, line 2"):
        read(path)


def test_a_missing_journal_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="elsewhere"):
        read(tmp_path / "elsewhere")


def test_numbers_that_json_lacks_are_refused(path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        append(path, trial(deviation=float("nan")))
    assert read(path) == [TRIAL, SECOND]


def test_a_full_disk_is_reported(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    with pytest.raises(DataError, match="/dev/full"):
        append(Path("/dev/full"), TRIAL)
    monkeypatch.setattr("os.write", lambda descriptor, line: len(line) - 1)
    with pytest.raises(DataError, match="no room for trial 1"):
        append(path, TRIAL)


def test_a_line_can_be_encoded_by_another_rank(path: Path) -> None:
    before = path.read_bytes()
    append_line(path, 1, line(TRIAL))
    assert path.read_bytes() == before + line(TRIAL) + b"\n"
    with pytest.raises(ValueError, match="JSON"):
        line(trial(given=float("inf")))
