"""Whole runs with tables: with rows and without, on one rank and several, failing, ending early and broken off."""

import csv
import io
import json
import re
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from job_folder import END, START
from launch import BENCH, ROOT, Finished, mpirun, run_job, start_job, wait_until
from report_readers import assert_parsers_read_it, assert_report_matches
from sampled_parameters import slow_one_in
from small_run import Run, bench

from hpcai.record.loading import result_of
from hpcai.report import files
from hpcai.results.table import CALL_CLOCKS
from hpcai.verification import verify

Json = dict[str, Any]

needs_mpirun = pytest.mark.skipif(mpirun() is None, reason="NO mpirun: TABLES NOT TESTED")
JOBS = ROOT / "tests" / "jobs"
HEADERS = "Tables\nof two sections\n"
KERNELS = "[kernels]\n24 SHAPES\n"
COMM = "[comm]\n1K 16K SIZES\n"
ENSEMBLE = "[ensemble]\nfashion DATASET\n64 SAMPLES\n1 GROUPS\n2 DEGREE\n8 BATCH\n1 EPOCHS\n0.05 TARGET\n"
_FOLDER = tempfile.TemporaryDirectory()
ONE_THREAD = {"OMP_NUM_THREADS": "1"}


def written(folder: Path, *sections: str) -> Path:
    path = folder / "tables.dat"
    path.write_text(HEADERS + "".join(sections), "utf-8")
    return path


@cache
def both() -> Run:
    """Tables before and after a row, on two ranks."""
    path = written(Path(_FOLDER.name), KERNELS, COMM, ENSEMBLE, COMM.replace("1K 16K", "8"))
    return bench([str(path)], 2)


def sound(run: Run) -> None:
    """Report and files agree with the result, parsers of HPL find its rows only, and it is verified."""
    assert run.job.returncode == 0, run.job.stderr
    assert run.job.stdout == files.report(result_of(run.result)) == (run.folder / "report.txt").read_text("utf-8")
    assert_report_matches(run.job.stdout, run.result)
    assert_parsers_read_it(run.job.stdout, run.result)
    assert verify.differences(run.folder / "result.json") == []


@pytest.mark.slow
def test_tables_and_rows_are_printed_in_the_order_of_the_file() -> None:
    run = both()
    sound(run)
    assert [table["index"] for table in run.result["tables"]] == [1, 2, 4]
    assert [test["index"] for test in run.result["tests"]] == [3]
    places = [run.job.stdout.index(text) for text in ("Kernels, test 1", "Collectives, test 2", "\nWR11", "test 4")]
    assert places == sorted(places)
    assert "Finished      4 tests" in run.job.stdout and "4 tests completed and passed" in run.job.stdout
    assert run.result["summary"]["valid"] == "UNOFFICIAL"


@pytest.mark.slow
def test_a_test_uses_the_results_of_the_tables_before_it() -> None:
    (test,) = both().result["tests"]
    ceilings, shares = both().result["tables"][0]["ceilings"], test["scores"]["roofline"]["shares"]
    assert shares["fma_peak"] == test["scores"]["roofline"]["rate"] / ceilings["fma_peak"]
    assert "start-up" not in test["phases"]


@pytest.mark.slow
def test_the_summary_has_the_ceilings() -> None:
    result, shown = both().result, both().job.stdout
    found = result["summary"]["ceilings"]
    assert found["fma_peak"] == result["tables"][0]["ceilings"]["fma_peak"] and found["convolution"] is None
    assert f"\nceiling_fma_peak_gflops={found['fma_peak'] / 1e9:.7f}\n" in shown and "ceiling_convolution" not in shown
    reduced = [row["busbw"] for row in result["collectives"] if row["collective"] == "all_reduce"]
    assert f"\nbusbw_gbytes={max(reduced) / 1e9:.7f}\n" in shown


@pytest.mark.slow
@pytest.mark.parametrize("member", ["kernels", "collectives"])
def test_rows_of_tables_have_a_file(member: str) -> None:
    rows = list(csv.DictReader(io.StringIO((both().folder / f"{member}.csv").read_text("utf-8"))))
    stored = both().result[member]
    assert len(rows) == len(stored) > 4 and {*rows[0]} == {*stored[0]} and next(iter(rows[0])) == "test"
    for row, other in zip(rows, stored, strict=True):
        assert float(row["seconds"]) == other["seconds"] and row["verdict"] == other["verdict"] == "PASSED"
        assert int(row["test"]) == other["test"]


@pytest.mark.slow
def test_ranks_stay_within_the_memory_planned() -> None:
    for table in both().result["tables"]:
        used = table["memory"]
        assert used["baseline_bytes"] < used["peak_bytes"] <= 1.02 * used["planned_bytes"], table["workload"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("ranks", [None, 3])
def test_a_run_of_tables_alone_has_no_best_row(ranks: int | None, tmp_path: Path) -> None:
    """On one rank no collective is possible; of three one is idle."""
    grid = "1 GROUPS\n1 DEGREE\n" if ranks is None else "1 GROUPS\n2 DEGREE\n"
    path = written(tmp_path, COMM + grid, KERNELS if ranks is None else "")
    run = bench([str(path)], ranks)
    sound(run)
    assert "INVALID; no training test, so there is nothing to rank" in run.job.stdout
    assert run.result["tests"] == [] and run.result["summary"]["best"] == []
    assert bool(run.result["collectives"]) == (ranks == 3)
    assert (run.folder / "kernels.csv").exists() == (ranks is None)
    assert run.result["environment"]["idle"] == ([] if ranks is None else ["Grid 1 x 2: rank 2 stays idle"])


@needs_mpirun
@pytest.mark.parametrize(("what", "section", "clocks"), slow_one_in(4, [
    ("product", KERNELS, "PASSED"),
    ("collectives_in_half_the_time", COMM, "FAILED"),
    ("element", COMM, "PASSED"),
    ("products_in_half_the_time", KERNELS, "FAILED"),
    ("half_of_the_calls", KERNELS, "FAILED"),
]))  # fmt: skip
def test_a_wrong_number_fails_the_table_and_the_result(what: str, section: str, clocks: str, tmp_path: Path) -> None:
    job = run_job([JOBS / "wrong_table.py", what, written(tmp_path, section)], 2, tmp_path, START, ONE_THREAD)
    assert job.returncode == 1, job.stderr
    assert "1 tests completed and failed residual checks," in job.stdout
    assert re.findall(rf"  {CALL_CLOCKS.name}: \S+ at most 1 \.{{6}} (\w+)", job.stdout) == [clocks]
    assert "Final Summary::HPCAI result is INVALID; checks FAILED, official PASSED; no training" in job.stdout
    (path,) = tmp_path.glob("results/*/result.json")
    assert verify.differences(path) == []
    result = json.loads(path.read_text("utf-8"))
    assert result["tables"][0]["verdict"] == "FAILED" and set(result["summary"]["ceilings"].values()) == {None}


def broken(folder: Path, job: Finished, ended: int, planned: int) -> Json:
    """The sound result of a run that was broken off in good order."""
    assert job.returncode == 3 and job.leftovers == [], job.stderr
    assert f"BROKEN OFF after {ended} of {planned} tests" in job.stdout and "End of Tests." not in job.stdout
    (path,) = folder.glob("results/*/result.json")
    assert verify.differences(path) == []
    return dict(json.loads(path.read_text("utf-8")))


@pytest.mark.slow
@needs_mpirun
@pytest.mark.parametrize(
    ("place", "section"),
    [
        ("multiplying 3", KERNELS),
        pytest.param("communicating 11", COMM, marks=pytest.mark.exhaustive),
    ],  # the first has 8 rows
)
def test_a_signal_ends_a_table_before_its_next_row(place: str, section: str, tmp_path: Path) -> None:
    written(tmp_path, COMM.replace("1K 16K", "4"), section).rename(tmp_path / "input.dat")
    job = run_job([JOBS / "failing.py", "1", *place.split(), "terminate"], 2, tmp_path, START, ONE_THREAD)
    result = broken(tmp_path, job, 1, 2)
    found = result["broken_off"]
    assert (found["index"], found["cause"], found["raw"]) == (2, "SIGTERM on rank 1", None)
    assert (found["workload"], len(result["tables"])) == (section[1 : section.index("]")], 1)
    assert f"Test 2 has no table, for the run ended first; [{found['workload']}] is not checked" in job.stdout


@needs_mpirun
@pytest.mark.slow
def test_the_time_limit_ends_a_run_of_tables(tmp_path: Path) -> None:
    path = written(tmp_path, KERNELS)
    job = run_job([BENCH, path, "--set", "TIMELIMIT=0.01"], 2, tmp_path, START, ONE_THREAD)
    assert broken(tmp_path, job, 0, 1)["broken_off"]["cause"] == "TIMELIMIT of 0.01 s"


@pytest.mark.slow
@needs_mpirun
@pytest.mark.parametrize(
    ("place", "how", "section"),
    [
        pytest.param("multiplying 4", "raise", KERNELS, marks=pytest.mark.exhaustive),
        ("communicating 3", "kill", COMM),
    ],
)
def test_a_rank_that_dies_in_a_table_ends_the_job(place: str, how: str, section: str, tmp_path: Path) -> None:
    written(tmp_path, section).rename(tmp_path / "input.dat")
    with start_job([JOBS / "failing.py", "1", *place.split(), how], 2, tmp_path, ONE_THREAD) as job:
        assert wait_until(lambda: (tmp_path / "failed").exists() or job.process.poll() is not None, START)
        finished = job.wait(END)
    assert finished.returncode != 0 and finished.leftovers == []
    (path,) = tmp_path.glob("results/*/result.json")
    assert not json.loads(path.read_text("utf-8"))["summary"]["complete"]
    assert verify.differences(path) == []


def test_a_grid_beyond_the_ranks_is_refused_with_its_line(tmp_path: Path) -> None:
    path = written(tmp_path, COMM, "2 GROUPS\n2 DEGREE\n")
    job = run_job([BENCH, path], 2 if mpirun() else None, tmp_path, START)
    assert job.returncode == 2 and not (tmp_path / "results").exists()
    assert "line 5: 2 GROUPS" in job.stderr and "needs 4 ranks; allowed: up to" in job.stderr


@pytest.mark.slow
def test_many_ranks_are_planned_together(tmp_path: Path) -> None:
    path = written(tmp_path, KERNELS, COMM, "0 GROUPS\n8 DEGREE\n")
    job = run_job([BENCH, path, "--plan", "--ranks", "100000"], None, tmp_path, START)
    assert job.returncode == 0 and not (tmp_path / "results").exists(), job.stderr
    rows = [line.split() for line in job.stdout.splitlines()[3:5]]
    assert rows[0][:7] == ["1", "32", "-", "-", "-", "[kernels]", "-"]
    assert rows[1][:7] == ["2", "-", "12500", "8", "0", "[comm]", "-"]
