"""Searches that are killed or stopped, and resumed from their journal: the same trials, each credited once."""

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import pytest
from interrupted_searches import (
    MODES,
    THREADS,
    assert_complete,
    broken_off,
    history,
    lines,
    lose_a_rank,
    prepared,
    resumed,
    terminate,
    trials,
    whole,
)
from job_folder import result, results
from launch import BENCH, ROOT, Job, kill_ranks, mpirun, run_job, start_job, wait_until
from sampled_parameters import slow
from search_runs import repeatable

from hpcai.record import check_declarations as declared
from hpcai.workloads.nas.checks import LOST_OR_DOUBLED

pytestmark = pytest.mark.skipif(mpirun() is None, reason="NO mpirun: RESUMED SEARCHES NOT TESTED")

FAILING = ROOT / "tests" / "jobs" / "failing.py"
FAULTY = ROOT / "tests" / "jobs" / "resumption_faults.py"
FAULTS = {
    "clock_of_a_search_begins_anew": {declared.CLAIMS.name},
    "work_of_earlier_jobs_forgotten": {declared.EXECUTED.name},
    "findings_of_earlier_jobs_forgotten": {declared.CLAIMS.name},
    "trials_of_earlier_jobs_not_counted": {LOST_OR_DOUBLED.name},
}
FIRST, *OTHERS = FAULTS
ENDS = (kill_ranks, lose_a_rank, terminate)
IN_CI = [("degree", terminate)]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("resumed")
    yield folder
    whole.cache_clear()


@pytest.mark.parametrize(("mode", "end"), slow(IN_CI, product(MODES, ENDS)))
def test_a_resumed_search_has_the_trials_of_one_that_was_not_broken_off(
    base: Path, mode: str, end: Callable[[Job], object]
) -> None:
    folder = prepared(base / mode / end.__name__, mode)
    broken_off(folder, mode, end, 3)
    earlier = history(folder).read_bytes().splitlines()
    assert not result(folder)["tests"]
    job = resumed(folder, mode)
    assert job.returncode == 0, job.stdout + job.stderr
    kept = [line for line in earlier if json.loads(line)["end"] != "time"]
    assert history(folder).read_bytes().splitlines()[: len(kept)] == kept
    assert job.stdout.count("\nResumed at ") == job.stdout.count("\nWR") == 1
    assert_complete(folder, base, mode)


@pytest.mark.exhaustive
def test_a_search_is_killed_and_resumed_several_times(base: Path) -> None:
    """Once with a last line that is torn, and once between its end and the row of the test."""
    folder, (ranks, _) = prepared(base / "groups" / "often", "groups"), MODES["groups"]
    broken_off(folder, "groups", kill_ranks, 3)
    count = lines(folder)
    broken_off(folder, "groups", kill_ranks, count + 2, "--resume", results(folder))
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


@pytest.mark.exhaustive
def test_a_search_whose_files_are_damaged_says_which(base: Path) -> None:
    folder = prepared(base / "groups" / "damaged", "groups")
    broken_off(folder, "groups", kill_ranks, 4)
    path = results(folder) / "search-1" / f"{trials(folder)[0].id}.safetensors"
    moved = path.rename(folder / path.name)
    job = resumed(folder, "groups")
    assert job.returncode == 3 and f"{path}: No such file or directory; trials can desc" in job.stderr
    moved.rename(path)
    sound = history(folder).read_bytes()
    history(folder).write_bytes(sound.replace(b'"correct":', b'"correct":1', 1))
    job = resumed(folder, "groups")
    assert job.returncode == 3 and f"{history(folder)}, line 1: not the line that the search wrote of" in job.stderr
    history(folder).write_bytes(sound[:-40])
    job = resumed(folder, "groups")
    assert job.returncode == 0 and "the last line of the journal is torn" in job.stderr
    assert_complete(folder, base, "groups")


@pytest.mark.exhaustive
def test_a_search_that_ended_is_not_repeated_and_the_next_one_goes_on(base: Path) -> None:
    folder = prepared(base / "groups" / "sweep", "groups", LEARNRATE="0.5 0.4")
    second = "results/*/search-2/history.jsonl"
    with start_job([BENCH], 2, folder, THREADS) as job:
        assert wait_until(lambda: [1 for path in folder.glob(second) if path.read_bytes()], 300), job.output()
        kill_ranks(job)
        job.wait(60)
    first = history(folder).stat()
    job = resumed(folder, "groups")
    assert job.returncode == 0, job.stdout + job.stderr
    assert history(folder).stat().st_mtime_ns == first.st_mtime_ns and job.stdout.count("\nWR") == 2
    raws = [entry["raw"] for entry in result(folder)["tests"]]
    assert [len(raw["resumed"]) for raw in raws] == [0, 1]
    assert repeatable(trials(folder)) == repeatable(whole(base, "groups"))


@pytest.mark.exhaustive
def test_a_group_that_lost_a_trial_stays_out(base: Path) -> None:
    folder = prepared(base / "groups" / "lost", "groups")
    with start_job([FAILING, "1", "training", "8", "raise"], 2, folder, THREADS) as job:
        assert wait_until(lambda: lines(folder) >= 5, 300), job.output()
        kill_ranks(job)
        job.wait(60)
    left = [trial for trial in trials(folder) if trial.worker == 1]
    assert left[-1].end == "lost"
    job = resumed(folder, "groups")
    assert job.returncode == 0, job.stdout + job.stderr
    raw = result(folder)["tests"][0]["raw"]
    assert raw["retired_groups"] == 1 and [t for t in trials(folder) if t.worker == 1] == left
    assert max(trial.round for trial in trials(folder)) == 6 and raw["ended_by"] == "rounds"


@pytest.mark.exhaustive
def test_a_recorded_search_goes_on(base: Path) -> None:
    whole(base, "groups")
    recording = history(base / "groups" / "whole")
    folder = prepared(base / "groups" / "recorded", "groups", REPLAY=f"file:{recording}", ROUNDS=0)
    broken_off(folder, "groups", kill_ranks, 4)
    job = resumed(folder, "groups")
    assert job.returncode == 0, job.stdout + job.stderr
    assert_complete(folder, base, "groups")


@pytest.mark.exhaustive
def test_the_clock_of_a_search_goes_on(base: Path) -> None:
    folder = prepared(base / "off" / "duration", "off", ROUNDS=0, DURATION=40)
    broken_off(folder, "off", terminate, 2)
    job = resumed(folder, "off")
    assert job.returncode == 0, job.stdout + job.stderr
    raw = result(folder)["tests"][0]["raw"]
    assert raw["ended_by"] == "duration" and raw["phases"]["search"] >= 40 and len(raw["resumed"]) == 1
    assert run_job([BENCH, "--verify", results(folder)], None, folder).returncode == 0


@pytest.mark.exhaustive
def test_a_search_without_a_trial_begins_anew(base: Path) -> None:
    folder = prepared(base / "groups" / "anew", "groups")
    job = run_job([FAILING, "0", "noting", "1", "kill"], 2, folder, env=THREADS)
    assert job.returncode != 0 and lines(folder) == 0
    job = resumed(folder, "groups")
    assert job.returncode == 0, job.stdout + job.stderr
    raw = result(folder)["tests"][0]["raw"]
    assert raw["resumed"] == [] and raw["phases"]["interrupted"] is None
    assert repeatable(trials(folder)) == repeatable(whole(base, "groups"))


@pytest.mark.exhaustive
def test_a_search_is_launched_again_until_it_is_done(base: Path) -> None:
    folder, script = prepared(base / "groups" / "again", "groups"), ROOT / "contrib" / "run_until_done.sh"
    found = {**os.environ, **THREADS, "MPIRUN": str(mpirun()), "PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    with Job([str(script), "2"], folder, found) as job:
        for count in (2, 6):
            assert wait_until(lambda count=count: lines(folder) >= count, 300), job.output()
            kill_ranks(job)
            assert wait_until(lambda: not job.ranks(), 60)
        ended = job.wait(300)
    assert ended.returncode == 0 and ended.stderr.count("run_until_done.sh: ended with") == 2
    assert_complete(folder, base, "groups", times=2)


@pytest.mark.slow
@pytest.mark.parametrize("fault", [FIRST, *(pytest.param(fault, marks=pytest.mark.exhaustive) for fault in OTHERS)])
def test_a_search_that_goes_on_wrong_fails(base: Path, fault: str) -> None:
    source = base / "groups" / "faulty"
    if not source.exists():
        broken_off(prepared(source, "groups"), "groups", kill_ranks, 7)
    folder = base / "groups" / fault
    shutil.copytree(source, folder)
    job = run_job([FAULTY, fault, "--resume", results(folder)], 2, folder, env=THREADS)
    checks = result(folder)["tests"][0]["checks"]
    assert {check["name"] for check in checks if check["verdict"] == "FAILED"} == FAULTS[fault], job.stderr
    assert job.returncode == 1
