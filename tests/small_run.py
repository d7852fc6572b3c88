"""A small real run, made once for all tests of results and reports, and the stored one for comparison."""

import json
import os
import tempfile
from collections.abc import Set
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from launch import BENCH, ROOT, Finished, mpirun, run_job
from sampled_parameters import one_in

from hpcai.inputfile import Case
from hpcai.record.loading import result_of
from hpcai.record.plain import digest, plain
from hpcai.verification import verify

Json = dict[str, Any]

GOLDEN = ROOT / "tests" / "golden"
INPUT = GOLDEN / "input.dat"
WEATHER = GOLDEN / "weather"
_folders = []  # temporary folders are removed with these objects, at the end of all tests


@dataclass(frozen=True)
class Run:
    """The outcome of a run: the finished job, its folder of results, and the result in it."""

    job: Finished
    folder: Path
    result: Json


SEARCH = """A small search
of the tests
[nas]
fashion DATASET
8 RESOLUTION
64 SAMPLES
1 GROUPS
2 DEGREE
16 BATCH
4 EPOCHS
2 TRIALS
2 ROUNDS
"""


@cache
def run_of(text: str, *changes: str) -> Run:
    """A run of an input on two ranks, made once for all tests; changes: KEY=VALUE of --set."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "input.dat"
        path.write_text(text, "utf-8")
        return bench([str(path), *(word for change in changes for word in ("--set", change))], 2)


@cache
def live_run() -> Run:
    """The small problem on two ranks."""
    return bench([str(INPUT)], 2)


@cache
def failing_run() -> Run:
    """A test that diverges, then one that passes, both with settings that the small problem lacks."""
    changes = ["LEARNRATE=1e30,0.256", "SAMPLES=64", "EPOCHS=3", "EVALUATE=2", "GROUPS=2", "DEGREE=1"]
    changes += ["SAMPLER=poisson", "MAPPING=column"]
    return bench([str(INPUT), "--set", *changes], 2)


REAL_RUNS = pytest.mark.parametrize("run", one_in(2, [live_run, failing_run]))  # functions that run them once


@cache
def weather_run() -> Run:
    """Weather: a test that diverges, then one that passes, both with settings that the stored ones lack."""
    changes = ["LEARNRATE=1e30,0.32", "SAMPLES=64", "EPOCHS=1", "GROUPS=2", "DEGREE=1", "SAMPLER=poisson"]
    return bench([str(WEATHER / "input.dat"), "--set", *changes], 2)


def bench(arguments: list[str], ranks: int | None, cpus: Set[int] | None = None) -> Run:
    """Run the program in a folder of its own, on all processors or on these; it must leave one folder of results."""
    if ranks is not None and mpirun() is None:
        pytest.skip("NO mpirun: MPI TEST NOT RUN")
    _folders.append(tempfile.TemporaryDirectory())
    folder = Path(_folders[-1].name)
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus or before)  # children inherit it
    job = run_job([BENCH, *arguments], ranks, folder)
    os.sched_setaffinity(0, before)
    assert job.returncode in (0, 1), job.stderr
    (made,) = (folder / "results").iterdir()
    return Run(job, made, json.loads((made / "result.json").read_text("utf-8")))


@cache
def _stored(folder: Path) -> str:
    return (folder / "result.json").read_text("utf-8")


def golden() -> Json:
    """The stored result, free to be altered."""
    return dict(json.loads(_stored(GOLDEN)))


def golden_weather() -> Json:
    """The stored result of weather, free to be altered."""
    return dict(json.loads(_stored(WEATHER)))


def cases_of(result: Json) -> list[Case]:
    """The cases of a result's input."""
    return verify.cases_of(result_of(result))


def rebuilt(result: Json) -> Json:
    """A result with all derived values computed again from its raw measurements: the most that a forger can do.

    HpcaiError if a record does not allow its values.
    """
    return plain(verify.rebuilt(result_of(result)))


def renewed(result: Json) -> Json:
    """A result with a new digest."""
    return {**result, "digest": digest(result)}
