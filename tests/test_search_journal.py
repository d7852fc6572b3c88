"""A history is what was added, whatever a crash left behind."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from hpcai.errors import DataError
from hpcai.networks.morphism import Deepen
from hpcai.search.journal import Trial, add, read, written

ENTRY = {"epoch": 1, "seconds": 2.5, "loss": 0.7, "validation_loss": 0.6, "samples": 64, "correct": 9, "counted": 16}
FIRST = Trial(
    id=1,
    worker=0,
    round=1,
    parent=None,
    operation="initial",
    morphisms=[],
    hyperparameters={"batch": 32, "kernel": 3},
    given=0.0,
    started=0.5,
    returned=3.0,
    planned_epochs=15,
    steps=2,
    executed_operations=10**15,
    curve=[{**ENTRY, "fingerprint": 2**62}],
    training_seconds=1.5,
    validation_seconds=0.5,
    warmup_seconds=0.25,
    deviation=0.0,
    nbytes=2**40,
    planned_bytes=2**41,
    end="planned",
)
SECOND = replace(FIRST, id=2, parent=1, operation="deepen", morphisms=[Deepen("stem_relu").to_json()], end="lost")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    for trial in (FIRST, SECOND):
        add(tmp_path / "history.jsonl", trial)
    return tmp_path / "history.jsonl"


def test_what_was_added_is_read(path: Path) -> None:
    assert read(path) == [FIRST, SECOND]
    assert [json.loads(line)["id"] for line in path.read_text().splitlines()] == [1, 2]


def test_nothing_that_was_written_changes(path: Path) -> None:
    before = path.read_bytes()
    add(path, FIRST)
    assert path.read_bytes()[: len(before)] == before


@pytest.mark.parametrize("kept", [0, 1, 40, -1])
def test_a_torn_last_line_is_passed_over(path: Path, kept: int) -> None:
    first, second, _ = path.read_bytes().split(b"\n")
    path.write_bytes(first + b"\n" + second[:kept])
    assert read(path) == [FIRST]


def test_a_line_torn_within_a_character_is_passed_over(path: Path) -> None:
    path.write_bytes(path.read_bytes() + '{"end": "ü'.encode()[:-1])
    assert read(path) == [FIRST, SECOND]


def changed(**values: object) -> bytes:
    return json.dumps({**asdict(FIRST), **values}).encode()


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
        json.dumps(asdict(FIRST)).encode()[:-9],
        changed(more=1),
        changed(id="1"),
        changed(id=None),
        changed(round=True),
        changed(given="now"),
        changed(morphisms={}),
        changed(hyperparameters=[]),
        json.dumps({"id": 3}).encode(),
    ],
    ids=str,
)
def test_any_other_line_that_is_no_trial_is_named(path: Path, line: bytes) -> None:
    first, second, _ = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([first, line, second, b""]))
    with pytest.raises(DataError, match=r"history\.jsonl, line 2"):
        read(path)


def test_a_history_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="elsewhere"):
        read(tmp_path / "elsewhere")


def test_numbers_that_json_has_not_are_refused(path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        add(path, replace(FIRST, deviation=float("nan")))
    assert read(path) == [FIRST, SECOND]


def test_a_full_disk_says_so(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    with pytest.raises(DataError, match="/dev/full"):
        add(Path("/dev/full"), FIRST)
    monkeypatch.setattr("os.write", lambda descriptor, line: len(line) - 1)
    with pytest.raises(DataError, match="no room for trial 1"):
        add(path, FIRST)


def test_a_line_may_be_written_elsewhere(path: Path) -> None:
    before = path.read_bytes()
    add(path, FIRST)
    assert path.read_bytes() == before + written(FIRST) + b"\n"
    with pytest.raises(ValueError, match="JSON"):
        written(replace(FIRST, given=float("inf")))
