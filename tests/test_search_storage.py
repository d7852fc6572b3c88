"""The folder of a search: every trial is in the journal, and weights are kept as long as they can be needed."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins
from simulated_workers import Search
from trial_records import TRIAL, trial

from hpcai.errors import DataError, InputError
from hpcai.networks.morphism import Deepen, Widen
from hpcai.report import checksums
from hpcai.search import storage as storage_module
from hpcai.search.messages import line
from hpcai.search.recorded_trials import read_recorded_trials
from hpcai.search.search_rules import SearchRules
from hpcai.search.storage import JOURNAL, REMOVE_EVERY, SearchStorage
from hpcai.search.weights_file import weights_file

Json = dict[str, Any]
FIELDS = to_builtins(TRIAL)
WIDER, DEEPER = Widen("stage1_block1_conv1", 24), Deepen("stem_relu", 3)


@pytest.fixture
def storage(tmp_path: Path) -> SearchStorage:
    made = SearchStorage(tmp_path / "results" / "search-1")
    made.create()
    return made


def kept(storage: SearchStorage) -> set[int]:
    return {int(path.stem) for path in storage.folder.glob("*.safetensors")}


def returns(storage: SearchStorage, id_: int) -> None:
    weights_file(storage.folder, id_).write_bytes(b"weights")
    recorded(storage, id_)


def recorded(storage: SearchStorage, id_: int, **values: object) -> None:
    storage.append(id_, line(trial(id=id_, **values)))


def test_recorded_trials_are_read(storage: SearchStorage) -> None:
    assert storage.trials() == []
    for id_ in (3, 1, 2):
        recorded(storage, id_)
    assert storage.trials() == [trial(id=id_) for id_ in (1, 2, 3)]
    lines = (storage.folder / JOURNAL).read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines] == [3, 1, 2]


def test_weights_that_are_not_needed_are_removed_from_time_to_time(storage: SearchStorage) -> None:
    needed = {2, 5, REMOVE_EVERY}
    storage.needed = lambda: needed
    (storage.folder / "999.safetensors").write_bytes(b"of a trial that runs")
    for id_ in range(1, REMOVE_EVERY):
        returns(storage, id_)
    assert kept(storage) == {*range(1, REMOVE_EVERY), 999}
    returns(storage, REMOVE_EVERY)
    assert kept(storage) == {*needed, 999}
    needed = {5}
    for id_ in range(REMOVE_EVERY + 1, 2 * REMOVE_EVERY + 1):
        returns(storage, id_)
    assert kept(storage) == {5, 999}


def test_trials_without_weights_are_accepted(storage: SearchStorage) -> None:
    storage.needed = lambda: set()
    for id_ in range(1, REMOVE_EVERY + 1):
        recorded(storage, id_, end="diverged")
    assert not kept(storage) and len(storage.trials()) == REMOVE_EVERY


@pytest.mark.parametrize("lag", [None, 1])
def test_the_weights_of_a_long_search_are_bounded(lag: int | None, storage: SearchStorage) -> None:
    search = Search(SearchRules(4, rounds=100, lag=lag), seed=1)
    storage.needed = search.coordinator.needed
    search.coordinator._record = lambda result, lines: returns(storage, result.id)
    search.run()
    assert len(storage.trials()) == 400
    assert len(kept(storage)) <= 64 + 4 * 4 + 64 + REMOVE_EVERY


def test_a_search_that_was_broken_off_begins_in_an_empty_folder(storage: SearchStorage) -> None:
    (storage.folder / "1.safetensors").touch()
    storage.create()
    assert not [*storage.folder.iterdir()]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="cannot make .*file/search"):
        SearchStorage(tmp_path / "file" / "search").create()


def test_a_folder_that_this_node_cannot_access_is_refused(
    storage: SearchStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.check_visible()
    monkeypatch.setattr(storage_module, "VISIBLE_WITHIN", 0.2)
    with pytest.raises(InputError, match=r"does not see .*elsewhere.*allowed: a directory that all nodes share"):
        SearchStorage(tmp_path / "elsewhere").check_visible()
    monkeypatch.setattr(storage_module, "sleep", lambda seconds: (tmp_path / "late").mkdir(exist_ok=True))
    SearchStorage(tmp_path / "late").check_visible()


Row = tuple[int, int, int, int | None, tuple[Any, ...]]


def journal_of(path: Path, *trials: Row) -> Path:
    """A journal of trials given by id, worker, round, parent, morphisms."""
    names = ("id", "worker", "round", "parent", "morphisms")
    lines = [line(trial(**dict(zip(names, row, strict=True)))).decode() + "\n" for row in trials]
    (path / JOURNAL).write_text("".join(lines))
    return path / JOURNAL


def test_the_trials_of_a_recorded_search_follow_their_parents(tmp_path: Path) -> None:
    """The second worker was slow: its first trial descends from the third one of the other, whose number is larger."""
    quick = (1, 0, 1, None, (WIDER,)), (3, 0, 2, 1, ()), (5, 0, 3, 1, (DEEPER,))
    path = journal_of(tmp_path, *quick, (2, 1, 1, 5, (WIDER,)))
    recorded = read_recorded_trials(path, 2)
    assert [*recorded] == [1, 3, 5, 2]
    assert [each.ancestry for each in recorded.values()] == [(), (WIDER,), (WIDER,), (WIDER, DEEPER)]
    assert recorded[2].morphisms == (WIDER,) and recorded[5].hyperparameters == TRIAL.hyperparameters


HYPER = FIELDS["hyperparameters"]


@pytest.mark.parametrize(
    "fault",
    [
        {"hyperparameters": {}},
        {"hyperparameters": HYPER | {"kernel": 4}},
        {"hyperparameters": HYPER | {"batch": 0}},
        {"hyperparameters": HYPER | {"batch": 10**12}},
        {"hyperparameters": HYPER | {"batch": "32"}},
        {"hyperparameters": HYPER | {"rate": 1}},
        {"morphisms": [{"operation": "nope"}]},
        {"morphisms": [{"operation": "widen"}]},
        {"morphisms": ["widen"]},
    ],
)
def test_a_journal_with_impossible_choices_is_refused(fault: Json, tmp_path: Path) -> None:
    path = journal_of(tmp_path, (1, 0, 1, None, ()))
    path.write_text(json.dumps({**json.loads(path.read_text()), **fault}) + "\n")
    with pytest.raises((InputError, DataError), match=r"history\.jsonl"):
        read_recorded_trials(path, 2)


def test_a_torn_or_altered_recording_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "search-1"
    place.mkdir()
    path = journal_of(place, (1, 0, 1, None, ()), (3, 0, 2, 1, (WIDER,)))
    whole = path.read_bytes()
    (tmp_path / checksums.NAME).write_text(checksums.text({f"search-1/{JOURNAL}": sha256(whole).hexdigest()}))
    assert [*read_recorded_trials(path, 2)] == [1, 3]
    for size in (len(whole) - 1, len(whole) - 40):
        path.write_bytes(whole[:size])
        with pytest.raises(DataError, match=r"history\.jsonl: the last line is cut"):
            read_recorded_trials(path, 2)
    path.write_bytes(whole.replace(b'"batch":', b'"batch":1'))
    with pytest.raises(DataError, match=r"history\.jsonl is altered: SHA256SUMS lists another SHA-256"):
        read_recorded_trials(path, 2)


def test_an_empty_journal_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no trial"):
        read_recorded_trials(journal_of(tmp_path), 2)


@pytest.mark.parametrize(
    ("workers", "row"),
    [
        (3, (3, 0, 2, 1, ())),
        (2, (4, 0, 2, 1, ())),
        (2, (3, 0, 2, 2, ())),
        (2, (1, 0, 1, None, ())),
        (2, (3, 2, 1, None, ())),
    ],
)
def test_a_journal_of_other_groups_or_without_parents_is_refused(workers: int, row: Row, tmp_path: Path) -> None:
    path = journal_of(tmp_path, (1, 0, 1, None, ()), row)
    with pytest.raises(InputError, match=rf"history\.jsonl: trial {row[0]} is none of a search by {workers} groups"):
        read_recorded_trials(path, workers)
    with pytest.raises(DataError, match="nowhere"):
        read_recorded_trials(tmp_path / "nowhere", workers)
