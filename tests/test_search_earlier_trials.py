"""The trials that earlier jobs left: which count, what is trained anew, and what is refused."""

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw
from trial_records import trial

from hpcai.errors import DataError
from hpcai.formulas.score import LARGEST
from hpcai.formulas.trial_schedule import number
from hpcai.machine.appended_lines import lines_of
from hpcai.networks.morphism import Deepen, Widen
from hpcai.record.trial import Trial
from hpcai.search import storage as storage_module
from hpcai.search.durations import Durations
from hpcai.search.earlier_trials import EarlierTrials, read, returned
from hpcai.search.group_totals import GroupTotals, TrialFindings
from hpcai.search.kept_trials import GroupTrial, KeptTrial, group_line, group_of, kept_line
from hpcai.search.messages import line
from hpcai.search.paths import JOURNAL
from hpcai.search.storage import SearchStorage
from hpcai.search.weights_file import weights_file

WIDER, DEEPER = Widen("stage1_block1_conv1", 24), Deepen("stem_relu", 3)
WORKERS = 2


def made(worker: int, round_: int, **values: Any) -> Trial:
    return trial(id=number(round_, worker, WORKERS), worker=worker, round=round_, **values)


TRIALS = (
    made(0, 1, morphisms=()),
    made(1, 1, morphisms=(WIDER,), returned=4.0),
    made(0, 2, morphisms=(DEEPER,), parent=2, returned=5.0),
    made(1, 2, morphisms=(WIDER,), parent=1, returned=6.0),
)


def beside(record: Trial, text: bytes, **values: Any) -> KeptTrial:
    group = GroupTrial(TrialFindings(), ("taken",), Durations(1, 0.5, 0.5), Durations(2, 1.0, 0.7), 3)
    facts = {"seconds": record.returned, "utc": 1e9 + record.returned, "requests": 9, "duplicates": 1, **values}
    facts |= {"busy_seconds": 0.1, "began": 1e9, "interrupted": 0.0, "resumed": ()}
    return KeptTrial(trial=record.id, sha256=sha256(text).hexdigest(), group=Raw(group_line(group)), **facts)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "search-1").mkdir()
    write(tmp_path / "search-1", *TRIALS)
    return tmp_path / "search-1"


def kept_file(folder: Path) -> Path:
    return folder.parent / "trials.jsonl"


def write(folder: Path, *trials: Trial) -> None:
    texts = [line(each) for each in trials]
    kept = [kept_line(beside(each, text)) for each, text in zip(trials, texts, strict=True)]
    (folder / JOURNAL).write_bytes(b"".join(text + b"\n" for text in texts))
    kept_file(folder).write_bytes(b"".join(text + b"\n" for text in kept))


def left(folder: Path, duration: float = 0.0) -> EarlierTrials:
    return read(folder, kept_file(folder), duration)


def assert_left(folder: Path, count: int, duration: float = 0.0) -> None:
    """The first trials count; the journal then has no others, and what follows can be appended."""
    found = left(folder, duration)
    assert [*found.trials] == [*TRIALS[:count]] and [each.trial for each in found.kept] == [t.id for t in found.trials]
    assert lines_of(folder / JOURNAL) == ([*found.lines], False) and kept_file(folder).read_bytes()[-1:] == b"\n"


def test_all_trials_of_a_sound_journal_count(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert_left(folder, 4)
    assert not capsys.readouterr().err
    chains = [told.chain for _, told in returned(left(folder).trials, 4)]
    assert chains == [(), (WIDER,), (WIDER, DEEPER), (WIDER,)]
    group = group_of(left(folder).kept[2])
    assert group.taken == ["taken"] and group.rejected == 3 and group.proposals == Durations(2, 1.0, 0.7)


def test_a_folder_without_journal_has_no_trials(tmp_path: Path) -> None:
    assert left(tmp_path / "search-1") == EarlierTrials()


def test_a_torn_last_line_is_left_out_and_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / JOURNAL
    path.write_bytes(path.read_bytes()[:-20])
    assert_left(folder, 3)
    assert "search-1: the last line of the journal is torn: its trial is trained anew" in capsys.readouterr().err


def test_a_line_that_was_only_kept_beside_the_journal_counts_for_nothing(folder: Path) -> None:
    (folder / JOURNAL).write_bytes(b"".join(line(each) + b"\n" for each in TRIALS[:2]))
    kept_file(folder).write_bytes(kept_file(folder).read_bytes()[:-5])
    assert_left(folder, 2)


def test_the_last_line_of_a_trial_that_was_trained_anew_holds(folder: Path) -> None:
    text = kept_file(folder).read_bytes()
    old = kept_line(beside(TRIALS[3], b"of the job before"))
    kept_file(folder).write_bytes(old + b"\n" + text)
    assert_left(folder, 4)


def test_a_trial_without_measurements_is_trained_anew(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept_file(folder).write_bytes(b"".join(text + b"\n" for text in lines_of(kept_file(folder))[0][:-1]))
    assert_left(folder, 3)
    assert "what was measured beside the journal is missing: trial 4 is trained anew" in capsys.readouterr().err


def test_a_trial_that_the_end_of_a_job_cut_is_trained_anew(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cut = made(0, 3, end="time", parent=2, returned=7.0)
    write(folder, *TRIALS, cut)
    found = left(folder, 6.5)
    assert [*found.trials] == [*TRIALS, cut] and not capsys.readouterr().err
    assert_left(folder, 4, 7.5)
    assert "cut by the end of the job: trial 5 is trained anew" in capsys.readouterr().err


def test_what_descends_from_a_missing_trial_is_trained_anew(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, _, third, fourth = lines_of(folder / JOURNAL)[0]
    (folder / JOURNAL).write_bytes(b"\n".join([first, third, fourth, b""]))
    assert_left(folder, 1)
    assert "an earlier trial is missing: 2 trials, the first of them 3, are trained anew" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        (b'"end":"planned"', b'"end":"plan"', "line 1: not a trial of a search"),
        (b'"correct":9', b'"correct":8', "line 1: not the line that the search wrote of trial 1"),
    ],
)
def test_a_damaged_line_is_refused(folder: Path, old: bytes, new: bytes, what: str) -> None:
    path = folder / JOURNAL
    path.write_bytes(path.read_bytes().replace(old, new, 1))
    with pytest.raises(DataError, match=rf"search-1/history\.jsonl, {what}"):
        left(folder)


def test_damaged_measurements_are_refused(folder: Path) -> None:
    kept_file(folder).write_bytes(kept_file(folder).read_bytes().replace(b'"rejected":3', b'"rejected":"x"', 1))
    with pytest.raises(DataError, match=r"trials\.jsonl, line 1: nothing that a search kept of a trial"):
        left(folder)


def test_numbers_that_are_not_finite_are_kept_as_the_largest(folder: Path) -> None:
    found = TrialFindings()
    found.findings.deviation, found.findings.clocks = (float("nan"), "where"), float("inf")
    text = group_line(GroupTrial(found, (), Durations(), Durations(), 0))
    kept = beside(TRIALS[0], b"")
    again = group_of(KeptTrial(**{name: getattr(kept, name) for name in KeptTrial.__struct_fields__} | {"group": text}))
    assert again.found.findings.deviation == (LARGEST, "where") and again.found.findings.clocks == LARGEST


def test_totals_go_on_with_those_of_earlier_jobs() -> None:
    totals, found = GroupTotals(), TrialFindings(1, loading={"loaded_samples": 64}, sent={"packing": 0.5})
    found.findings.replayed, found.contents.samples = 2, 5
    totals.restore(TRIALS[::2], [found, found])
    assert (totals.steps, totals.samples, totals.last_return) == (4, 128, 5.0)
    assert totals.seconds == {"training": 3.0, "validation": 1.0, "warm_up": 0.5}
    assert totals.found.loading == {"loaded_samples": 128} and totals.found.findings.replayed == 4
    assert totals.found.contents.samples == 10 and found.loading == {"loaded_samples": 64}


def stored(folder: Path, *numbers: int) -> list[Trial]:
    """The trials; those of these numbers have weights."""
    texts = {id_: b"weights of %d" % id_ for id_ in numbers}
    for id_, text in texts.items():
        weights_file(folder, id_).write_bytes(text)
    digests = {id_: sha256(text).hexdigest() for id_, text in texts.items()}
    return [trial(id=id_, weights_sha256=digests.get(id_)) for id_ in range(1, 5)]


def test_weights_without_a_line_are_removed_and_those_that_are_needed_must_be_there(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials, storage = stored(folder, 1, 2, 3), SearchStorage(folder)
    for name in ("9.safetensors", ".2.safetensors"):
        (folder / name).touch()
    storage.restore(trials, [line(each) for each in TRIALS])
    assert sorted(path.name for path in folder.iterdir()) == [*(f"{id_}.safetensors" for id_ in (1, 2, 3)), JOURNAL]
    assert storage.appended_sha256 == sha256((folder / JOURNAL).read_bytes()).hexdigest()
    storage.needed = lambda: {1, 2, 4}
    storage.check_weights(trials)
    weights_file(folder, 3).unlink()
    storage.check_weights(trials)
    weights_file(folder, 2).write_bytes(b"others")
    with pytest.raises(DataError, match=r"2\.safetensors: altered; trials can descend from trial 2; allowed: "):
        storage.check_weights(trials)
    monkeypatch.setattr(storage_module, "MOST_COMPARED", 1)
    storage.check_weights(trials)
    weights_file(folder, 1).unlink()
    with pytest.raises(DataError, match=r"1\.safetensors: No such file .*; trials can descend from trial 1"):
        storage.check_weights(trials)


def test_no_weights_are_removed_once_a_trial_was_cut(folder: Path) -> None:
    storage = SearchStorage(folder)
    stored(folder, 1, 2, 3)
    for id_ in range(1, 17):
        storage.append(id_, b"", cut=id_ == 16)
    assert weights_file(folder, 1).exists()
