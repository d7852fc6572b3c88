"""Real searches that are interrupted once their journal has so many lines, and resumed."""

import os
import signal
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from job_folder import Json, result, results
from launch import BENCH, Finished, Job, run_job, start_job, wait_until
from search_runs import SETTINGS, repeatable

from hpcai.record.trial import Trial
from hpcai.search import journal

INPUT = """\
A search that is broken off
Small
0               TELEMETRY
[nas]
"""
SMALL: Json = {**SETTINGS, "EPOCHS": 1, "ROUNDS": 6, "REPLAY": "rounds"}
# Where REPLAY is off, time decides what a proposal knows: trials are not compared.
MODES: dict[str, tuple[int, Json]] = {
    "groups": (2, SMALL),
    "one": (1, {**SMALL, "GROUPS": 1, "REPLAY": "off", "ROUNDS": 0, "TRIALS": 7}),
    "degree": (2, {**SMALL, "GROUPS": 1, "DEGREE": 2, "WINDOW": 3600}),
    "both": (4, {**SMALL, "DEGREE": 2, "ROUNDS": 5}),
    "random": (2, {**SMALL, "STRATEGY": "random", "INITIAL": "fresh", "LAG": 2}),
    "off": (2, {**SMALL, "REPLAY": "off"}),
}
THREADS = {"OMP_NUM_THREADS": "1"}


def prepared(folder: Path, mode: str, **others: object) -> Path:
    folder.mkdir(parents=True)
    settings = {**MODES[mode][1], **others}.items()
    (folder / "input.dat").write_text(INPUT + "".join(f"{value} {key}\n" for key, value in settings))
    return folder


def history(folder: Path) -> Path:
    return results(folder) / "search-1" / "history.jsonl"


def trials(folder: Path) -> Sequence[Trial]:
    return sorted(journal.read(history(folder)), key=lambda trial: trial.id)


def lines(folder: Path) -> int:
    """Trials in the journal; 0 if there is none yet."""
    return sum(path.read_bytes().count(b"\n") for path in folder.glob("results/*/search-1/history.jsonl"))


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


def lose_a_rank(job: Job) -> None:
    ranks = job.ranks()
    os.kill(ranks[max(ranks)], signal.SIGKILL)


def terminate(job: Job) -> None:
    job.process.send_signal(signal.SIGTERM)


def assert_complete(folder: Path, base: Path, mode: str, times: int = 1) -> None:
    """The search has all trials, is verified, and says how often it was resumed."""
    found, own = result(folder), trials(folder)
    raw = found["tests"][0]["raw"]
    assert found["tests"][0]["verdict"] == "PASSED" and found["summary"]["complete"]
    assert [trial["id"] for trial in raw["trials"]] == [trial.id for trial in own]
    assert len(raw["resumed"]) == times and raw["phases"]["interrupted"] > 0 and len(found["resumed"]) >= times
    assert raw["granted"] == len(own) == len(whole(base, mode))
    if MODES[mode][1]["REPLAY"] != "off":
        assert repeatable(own) == repeatable(whole(base, mode))
    assert not [*results(folder).glob(".checkpoints")]
    verified = run_job([BENCH, "--verify", results(folder)], None, folder)
    assert verified.returncode == 0, verified.stdout
