"""Searches that are killed or stopped, and resumed from their journal: the same trials, each credited once."""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from launch import BENCH, ROOT, Finished, Job, mpirun, run_job, start_job, wait_until
from search_runs import SETTINGS, repeatable

from hpcai.record.trial import Trial
from hpcai.search import journal

pytestmark = pytest.mark.skipif(mpirun() is None, reason="NO mpirun: RESUMED SEARCHES NOT TESTED")

Json = dict[str, Any]
INPUT = """\
A table, and a search that is broken off
Small
0               TELEMETRY
[kernels]
16              SHAPES
[nas]
"""
SMALL: Json = {**SETTINGS, "EPOCHS": 1, "ROUNDS": 6, "REPLAY": "rounds"}
MODES: dict[str, tuple[int, Json]] = {
    "groups": (2, SMALL),
    "one": (1, {**SMALL, "GROUPS": 1, "REPLAY": "off", "ROUNDS": 0, "TRIALS": 7}),
    "degree": (2, {**SMALL, "GROUPS": 1, "DEGREE": 2, "WINDOW": 3600}),
    "both": (4, {**SMALL, "DEGREE": 2, "ROUNDS": 5}),
    "random": (2, {**SMALL, "STRATEGY": "random", "INITIAL": "fresh", "LAG": 2}),
    "off": (2, {**SMALL, "REPLAY": "off"}),  # time decides what a proposal knows: nothing is compared
}
SLOW = [pytest.param(mode, marks=pytest.mark.slow) for mode in MODES if mode != "groups"]
THREADS = {"OMP_NUM_THREADS": "1"}
FAILING = ROOT / "tests" / "jobs" / "failing.py"


def prepared(folder: Path, mode: str) -> Path:
    folder.mkdir(parents=True)
    settings = "".join(f"{value} {key}\n" for key, value in MODES[mode][1].items())
    (folder / "input.dat").write_text(INPUT + settings)
    return folder


def results(folder: Path) -> Path:
    return next(folder.glob("results/*"))


def result(folder: Path) -> Json:
    found: Json = json.loads((results(folder) / "result.json").read_text())
    return found


def history(folder: Path) -> Path:
    return results(folder) / "search-2" / "history.jsonl"


def trials(folder: Path) -> Sequence[Trial]:
    return sorted(journal.read(history(folder)), key=lambda trial: trial.id)


def lines(folder: Path) -> int:
    """Trials in the journal; 0 if there is none yet."""
    return sum(path.read_bytes().count(b"\n") for path in folder.glob("results/*/search-2/history.jsonl"))


@cache
def whole(base: Path, mode: str) -> Sequence[Trial]:
    """The trials of a search that nothing interrupts."""
    folder = prepared(base / mode / "whole", mode)
    job = run_job([BENCH], MODES[mode][0], folder, env=THREADS)
    assert job.returncode == 0, job.stdout + job.stderr
    assert result(folder)["tests"][0]["raw"]["resumed"] == []
    return trials(folder)


def broken_off(folder: Path, mode: str, end: Callable[[Job], object], count: int, *arguments: Any) -> None:
    """A run that is ended as soon as its journal has so many lines."""
    with start_job([BENCH, *arguments], MODES[mode][0], folder, THREADS) as job:
        assert wait_until(lambda: lines(folder) >= count or job.process.poll() is not None, 300), job.output()
        end(job)
        assert job.wait(60).returncode != 0


def resumed(folder: Path, mode: str) -> Finished:
    return run_job([BENCH, "--resume", results(folder)], MODES[mode][0], folder, env=THREADS)


def kill(job: Job) -> None:
    for pid in job.ranks().values():
        with suppress(ProcessLookupError):  # the launcher kills the others at once
            os.kill(pid, signal.SIGKILL)


def lose_a_rank(job: Job) -> None:
    ranks = job.ranks()
    os.kill(ranks[max(ranks)], signal.SIGKILL)


def terminate(job: Job) -> None:
    job.process.send_signal(signal.SIGTERM)


ENDS = [kill, *(pytest.param(end, marks=pytest.mark.slow) for end in (lose_a_rank, terminate))]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("resumed")
    yield folder
    whole.cache_clear()


def assert_complete(folder: Path, base: Path, mode: str, times: int = 1) -> None:
    """The search has all trials, is verified, and says how often it was resumed."""
    found, own = result(folder), trials(folder)
    raw = found["tests"][0]["raw"]
    assert found["tests"][0]["verdict"] == "PASSED" and found["summary"]["complete"]
    assert [trial["id"] for trial in raw["trials"]] == [trial.id for trial in own]
    assert len(raw["resumed"]) == times and raw["phases"]["interrupted"] > 0 and len(found["resumed"]) >= times
    assert raw["granted"] == len(own) == len(whole(base, mode))
    if mode != "off":
        assert repeatable(own) == repeatable(whole(base, mode))
    assert not [*results(folder).glob(".checkpoints")]
    verified = run_job([BENCH, "--verify", results(folder)], None, folder)
    assert verified.returncode == 0, verified.stdout


@pytest.mark.parametrize("mode", ["groups", *SLOW])
@pytest.mark.parametrize("end", ENDS)
def test_a_resumed_search_has_the_trials_of_one_that_was_not_broken_off(
    base: Path, mode: str, end: Callable[[Job], object]
) -> None:
    folder = prepared(base / mode / end.__name__, mode)
    broken_off(folder, mode, end, 3)
    before, earlier = result(folder), history(folder).read_bytes().splitlines()
    assert [entry["index"] for entry in before["tables"]] == [1] and not before["tests"]
    job = resumed(folder, mode)
    assert job.returncode == 0, job.stdout + job.stderr
    kept = [line for line in earlier if json.loads(line)["end"] != "time"]
    assert history(folder).read_bytes().splitlines()[: len(kept)] == kept
    assert result(folder)["tables"] == before["tables"] and job.stdout.count("\nResumed at ") == 1
    assert_complete(folder, base, mode)


@pytest.mark.slow
def test_a_search_is_killed_and_resumed_several_times(base: Path) -> None:
    """Once with a last line that is torn, and once between its end and the row of the test."""
    folder, (ranks, _) = prepared(base / "groups" / "often", "groups"), MODES["groups"]
    broken_off(folder, "groups", kill, 3)
    count = lines(folder)
    broken_off(folder, "groups", kill, count + 2, "--resume", results(folder))
    verified = run_job([BENCH, "--verify", results(folder)], None, folder)
    assert verified.returncode == 0 and "altered" not in verified.stdout
    text, count = history(folder).read_bytes(), lines(folder)
    history(folder).write_bytes(text + text.splitlines()[0][:100])
    broken_off(folder, "groups", terminate, count + 2, "--resume", results(folder))
    arguments = [FAILING, "0", "totalling", "1", "kill", "--resume", results(folder)]
    job = run_job(arguments, ranks, folder, env=THREADS)
    assert job.returncode != 0 and lines(folder) == len(whole(base, "groups"))
    job = resumed(folder, "groups")
    assert job.returncode == 0, job.stdout + job.stderr
    assert_complete(folder, base, "groups", times=4)


def test_a_search_whose_files_are_damaged_says_which(base: Path) -> None:
    folder = prepared(base / "groups" / "damaged", "groups")
    broken_off(folder, "groups", kill, 4)
    path = results(folder) / "search-2" / f"{trials(folder)[0].id}.safetensors"
    moved = path.rename(folder / path.name)
    job = resumed(folder, "groups")
    assert job.returncode == 3 and f"{path} cannot be read: trials can descend from trial 1" in job.stderr
    moved.rename(path)
    sound = history(folder).read_bytes()
    history(folder).write_bytes(sound.replace(b'"correct":', b'"correct":1', 1))
    job = resumed(folder, "groups")
    assert job.returncode == 3 and f"{history(folder)}, line 1: not the line that the search wrote of" in job.stderr
    history(folder).write_bytes(sound[:-40])
    job = resumed(folder, "groups")
    assert job.returncode == 0 and "the last line of the journal is torn" in job.stderr
    assert_complete(folder, base, "groups")


@pytest.mark.slow
def test_a_search_that_ended_is_not_repeated_and_the_next_one_goes_on(base: Path) -> None:
    folder = prepared(base / "groups" / "sweep", "groups")
    input_file = folder / "input.dat"
    input_file.write_text(input_file.read_text() + "1 2 SEED\n")
    second = "results/*/search-3/history.jsonl"
    with start_job([BENCH], 2, folder, THREADS) as job:
        assert wait_until(lambda: [1 for path in folder.glob(second) if path.read_bytes()], 300), job.output()
        kill(job)
        job.wait(60)
    first = history(folder).stat()
    job = resumed(folder, "groups")
    assert job.returncode == 0, job.stdout + job.stderr
    assert history(folder).stat().st_mtime_ns == first.st_mtime_ns and job.stdout.count("\nWR") == 2
    raws = [entry["raw"] for entry in result(folder)["tests"]]
    assert [len(raw["resumed"]) for raw in raws] == [0, 1]
    assert repeatable(trials(folder)) == repeatable(whole(base, "groups"))


@pytest.mark.slow
def test_a_search_is_launched_again_until_it_is_done(base: Path) -> None:
    folder, script = prepared(base / "groups" / "again", "groups"), ROOT / "contrib" / "run_until_done.sh"
    found = {**os.environ, **THREADS, "MPIRUN": str(mpirun()), "PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    with Job([str(script), "2"], folder, found) as job:
        for count in (2, 6):
            assert wait_until(lambda count=count: lines(folder) >= count, 300), job.output()
            kill(job)
            assert wait_until(lambda: not job.ranks(), 60)
        ended = job.wait(300)
    assert ended.returncode == 0 and ended.stderr.count("run_until_done.sh: ended with") == 2
    assert_complete(folder, base, "groups", times=2)
