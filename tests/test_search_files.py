"""History and weights of a search against its result: what a forger alters is found even if SHA256SUMS is renewed."""

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from synthetic_search import searched

from hpcai.record.loading import load, result_of
from hpcai.record.result import Result
from hpcai.record.trial import Trial
from hpcai.report import checksums, files
from hpcai.search import journal
from hpcai.verification import verify

WEIGHTS = b"weights of a trial"
HISTORY, FIRST = "search-1/history.jsonl", "search-1/1.safetensors"


def with_digests(result: Result, history: str | None, weights: str | None) -> Result:
    """The result whose history and first trial's weights have these digests."""
    (test,) = result.tests
    trials = (structs.replace(test.raw.trials[0], weights_sha256=weights), *test.raw.trials[1:])
    raw = structs.replace(test.raw, trials=trials, history_sha256=history)
    return verify.rebuilt(structs.replace(result, tests=(structs.replace(test, raw=raw),)))


def written_history(path: Path, trials: tuple[Trial, ...]) -> str:
    """Write the history, the last trial first; its SHA-256."""
    path.unlink(missing_ok=True)
    for trial in reversed(trials):
        journal.append(path, trial)
    return sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The made-up search with its history, and the weights of one trial."""
    (tmp_path / "search-1").mkdir()
    (tmp_path / FIRST).write_bytes(WEIGHTS)
    result = with_digests(result_of(searched()), None, sha256(WEIGHTS).hexdigest())
    digest = written_history(tmp_path / HISTORY, result.tests[0].raw.trials)
    files.write(tmp_path, with_digests(result, digest, sha256(WEIGHTS).hexdigest()))
    return tmp_path


def stored(folder: Path) -> Any:
    return load(folder / "result.json").tests[0].raw


def renew_sums(folder: Path) -> list[str]:
    """What a forger does last; the differences that remain."""
    names = checksums.files_below(folder)
    (folder / checksums.NAME).write_text(checksums.text({name: checksums.sha256_of(folder / name) for name in names}))
    return verify.differences(folder / "result.json")


def test_a_search_with_its_files_is_verified(folder: Path) -> None:
    assert verify.differences(folder / "result.json") == [] and renew_sums(folder) == []
    assert f"and {HISTORY};" in verify.sound_message(folder / "result.json")
    assert {HISTORY, FIRST} <= {*checksums.read(folder / checksums.NAME)}


def test_an_altered_trial_of_the_history_is_found(folder: Path) -> None:
    first, *others = stored(folder).trials
    written_history(folder / HISTORY, (structs.replace(first, nbytes=first.nbytes + 1), *others))
    listed = f"{HISTORY} is altered: SHA256SUMS lists another SHA-256"
    found = f"{HISTORY}: trial 1: not what the result file says"
    assert verify.differences(folder / "result.json") == [found, listed]
    assert renew_sums(folder) == [found]


def test_a_trial_more_or_less_is_found(folder: Path) -> None:
    trials = stored(folder).trials
    written_history(folder / HISTORY, trials[:-1])
    assert renew_sums(folder) == [f"{HISTORY}: trial {trials[-1].id}: not what the result file says"]
    written_history(folder / HISTORY, (*trials, structs.replace(trials[-1], id=77)))
    assert renew_sums(folder) == [f"{HISTORY}: trial 77: not what the result file says"]


def test_lines_in_another_order_or_form_are_found(folder: Path) -> None:
    found = [f"{HISTORY}: not the lines that the search appended"]
    written_history(folder / HISTORY, tuple(reversed(stored(folder).trials)))
    assert renew_sums(folder) == found
    written_history(folder / HISTORY, stored(folder).trials)
    with (folder / HISTORY).open("a") as history:
        history.write('{"id":')  # as a write that was cut off leaves it
    assert renew_sums(folder) == found


def test_a_history_that_is_none_is_named(folder: Path) -> None:
    (folder / HISTORY).write_text("nonsense\n")
    (found,) = renew_sums(folder)
    assert found.startswith(f"{HISTORY}: cannot be read: line 1: not a trial of a search")
    (folder / HISTORY).unlink()
    (folder / HISTORY).mkdir()
    assert [*map(len, verify.differences(folder / "result.json"))]


def test_missing_files_are_named(folder: Path) -> None:
    for name in (HISTORY, FIRST):
        (folder / name).unlink()
    names = sorted([HISTORY, FIRST])
    assert verify.differences(folder / "result.json") == [f"{name} is missing: SHA256SUMS lists it" for name in names]
    assert renew_sums(folder) == []  # weights are removed during a search
    assert f"not evaluated again without {HISTORY}" in verify.sound_message(folder / "result.json")


def test_altered_weights_are_found(folder: Path) -> None:
    (folder / FIRST).write_bytes(WEIGHTS + b".")
    assert verify.differences(folder / "result.json") == [f"{FIRST} is altered: SHA256SUMS lists another SHA-256"]
    found = [f"{FIRST}: not the weights that the trial ended with"]
    assert renew_sums(folder) == found
    (folder / checksums.NAME).unlink()
    assert verify.differences(folder / "result.json") == found


def test_results_without_digests_are_compared_with_their_history(folder: Path) -> None:
    trials = stored(folder).trials
    older = with_digests(load(folder / "result.json"), None, None)
    written_history(folder / HISTORY, older.tests[0].raw.trials)
    files.write(folder, older)
    (folder / checksums.NAME).unlink()
    assert verify.differences(folder / "result.json") == []
    written_history(folder / HISTORY, trials[1:])
    assert verify.differences(folder / "result.json") == [f"{HISTORY}: trial 1: not what the result file says"]
