"""The folder of a search: every trial is written down, and weights stay as long as somebody may want them."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from simulated_workers import Search
from test_search_journal import FIRST

from hpcai.errors import DataError, InputError
from hpcai.search import storage as archives
from hpcai.search.child_builder import weights_file
from hpcai.search.coordinator import Rules
from hpcai.search.messages import line
from hpcai.search.storage import BETWEEN, HISTORY, Archive, replayed

Json = dict[str, Any]
FIELDS = asdict(FIRST)
WIDER = {"operation": "widen", "layer": "stage1_block1_conv1", "channels": 24}
DEEPER = {"operation": "deepen", "after": "stem_relu", "kernel": 3}


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    found = Archive(tmp_path / "results" / "search-1")
    found.create()
    return found


def kept(archive: Archive) -> set[int]:
    return {int(path.stem) for path in archive.folder.glob("*.pt")}


def returns(archive: Archive, id_: int) -> None:
    weights_file(archive.folder, id_).write_bytes(b"weights")
    recorded(archive, id_)


def recorded(archive: Archive, id_: int, **fields: object) -> None:
    archive.record(id_, line({**FIELDS, "id": id_, **fields}))


def test_trials_are_read_as_they_were_recorded(archive: Archive) -> None:
    assert archive.trials() == []
    for id_ in (3, 1, 2):
        recorded(archive, id_)
    assert [asdict(trial) for trial in archive.trials()] == [{**FIELDS, "id": id_} for id_ in (1, 2, 3)]
    lines = (archive.folder / HISTORY).read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines] == [3, 1, 2]


def test_weights_that_nobody_wants_are_removed_now_and_then(archive: Archive) -> None:
    wanted = {2, 5, BETWEEN}
    archive.wanted = lambda: wanted
    (archive.folder / "999.pt").write_bytes(b"of a trial that runs")
    for id_ in range(1, BETWEEN):
        returns(archive, id_)
    assert kept(archive) == {*range(1, BETWEEN), 999}
    returns(archive, BETWEEN)
    assert kept(archive) == {*wanted, 999}
    wanted = {5}
    for id_ in range(BETWEEN + 1, 2 * BETWEEN + 1):
        returns(archive, id_)
    assert kept(archive) == {5, 999}


def test_trials_without_weights_are_no_problem(archive: Archive) -> None:
    archive.wanted = lambda: set()
    for id_ in range(1, BETWEEN + 1):
        recorded(archive, id_, end="diverged")
    assert not kept(archive) and len(archive.trials()) == BETWEEN


@pytest.mark.parametrize("lag", [None, 1])
def test_the_weights_of_a_long_search_are_bounded(lag: int | None, archive: Archive) -> None:
    search = Search(Rules(4, rounds=100, lag=lag), seed=1)
    archive.wanted = search.coordinator.wanted
    search.coordinator._record = lambda message: returns(archive, message["id"])
    search.run()
    assert len(archive.trials()) == 400
    assert len(kept(archive)) <= 64 + 4 * 4 + 64 + BETWEEN


def test_a_folder_that_cannot_be_made_is_named(archive: Archive, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="search-1: File exists"):
        archive.create()
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="cannot make .*file/search"):
        Archive(tmp_path / "file" / "search").create()


def test_a_folder_that_this_node_does_not_see_is_refused(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive.check_seen()
    monkeypatch.setattr(archives, "SEEN_WITHIN", 0.2)
    with pytest.raises(InputError, match=r"does not see .*elsewhere.*allowed: a directory that all nodes share"):
        Archive(tmp_path / "elsewhere").check_seen()
    monkeypatch.setattr(archives, "sleep", lambda seconds: (tmp_path / "late").mkdir(exist_ok=True))
    Archive(tmp_path / "late").check_seen()


def history_of(path: Path, *trials: tuple[int, int, int, int | None, list[Json]]) -> Path:
    """A history of these: id, worker, round, parent, morphisms."""
    names = ("id", "worker", "round", "parent", "morphisms")
    lines = [json.dumps({**FIELDS, **dict(zip(names, trial, strict=True))}) + "\n" for trial in trials]
    (path / HISTORY).write_text("".join(lines))
    return path / HISTORY


def test_a_recorded_search_has_its_parents_first(tmp_path: Path) -> None:
    """The second worker was slow: its first trial descends from the third one of the other, whose number is larger."""
    quick = (1, 0, 1, None, [WIDER]), (3, 0, 2, 1, []), (5, 0, 3, 1, [DEEPER])
    path = history_of(tmp_path, *quick, (2, 1, 1, 5, [WIDER]))
    found = replayed(path, 2)
    assert [*found] == [1, 3, 5, 2]
    assert [trial["ancestry"] for trial in found.values()] == [[], [WIDER], [WIDER], [WIDER, DEEPER]]
    assert found[2]["morphisms"] == [WIDER] and found[5]["hyperparameters"] == FIELDS["hyperparameters"]


HYPER = FIELDS["hyperparameters"]


@pytest.mark.parametrize(
    "fault",
    [
        {"hyperparameters": {}},
        {"hyperparameters": HYPER | {"kernel": 4}},
        {"hyperparameters": HYPER | {"batch": 0}},
        {"hyperparameters": HYPER | {"batch": "32"}},
        {"hyperparameters": HYPER | {"rate": 1}},
        {"morphisms": [{"operation": "nope"}]},
        {"morphisms": [{"operation": "widen"}]},
        {"morphisms": ["widen"]},
    ],
)
def test_a_history_of_choices_that_no_search_makes_is_refused(fault: Json, tmp_path: Path) -> None:
    path = history_of(tmp_path, (1, 0, 1, None, []))
    path.write_text(json.dumps({**json.loads(path.read_text()), **fault}) + "\n")
    with pytest.raises((InputError, DataError), match=r"history\.jsonl"):
        replayed(path, 2)


def test_an_empty_history_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no trial"):
        replayed(history_of(tmp_path), 2)


@pytest.mark.parametrize(
    ("workers", "trial"),
    [
        (3, (3, 0, 2, 1, [])),
        (2, (4, 0, 2, 1, [])),
        (2, (3, 0, 2, 2, [])),
        (2, (1, 0, 1, None, [])),
        (2, (3, 2, 1, None, [])),
    ],
)
def test_a_history_of_other_groups_or_without_parents_is_refused(
    workers: int, trial: tuple[int, int, int, int | None, list[Json]], tmp_path: Path
) -> None:
    path = history_of(tmp_path, (1, 0, 1, None, []), trial)
    with pytest.raises(InputError, match=rf"history\.jsonl: trial {trial[0]} is none of a search by {workers} groups"):
        replayed(path, workers)
    with pytest.raises(DataError, match="nowhere"):
        replayed(tmp_path / "nowhere", workers)
