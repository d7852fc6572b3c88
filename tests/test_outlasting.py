"""Under Open MPI with `--with-ft mpi` a lost rank costs its group only; the others find what they would have found."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from job_folder import END, START, prepared, result, results
from launch import BENCH, ROOT, Finished, run_job, wait_until
from open_mpi import outlasting_job

from hpcai.report import checksums

FAILING = ROOT / "tests" / "jobs" / "failing.py"
LONG_START, LONG_END = 2 * START, 4 * END  # eight ranks share few cores
SETTINGS = ("EPOCHS=6", "CHECKPOINT=0.05")
SEARCH = """\
Small made-up images
A search
[nas]
fashion:images    DATASET
{grid}
8                 BATCH
8                 RESOLUTION
2                 EPOCHS
9                 TRIALS
"""
WEATHER = """\
Generated fields
Three models
[weather]
generated         DATASET
48                RESOLUTION
32                SAMPLES
3                 GROUPS
1                 DEGREE
4                 BATCH
2                 EPOCHS
"""


def ended(folder: Path, ranks: int, failure: str, *settings: str, **options: Any) -> Finished:
    """The end of a job one rank of which fails: "RANK PLACE COUNT HOW"; options of the job."""
    arguments = [FAILING, *failure.split(), "--set", *SETTINGS, *settings]
    with outlasting_job(arguments, ranks, prepared(folder), **options) as job:
        assert wait_until(lambda: (folder / "failed").exists(), LONG_START), job.output()
        return job.wait(LONG_END)


def verified(folder: Path) -> bool:
    """Whether the result in a folder verifies; with MPICH's Python, as anybody would."""
    return run_job([BENCH, "--verify", results(folder)], None, folder).returncode == 0


def classes(folder: Path) -> Any:
    """What each model says of the validation samples."""
    with h5py.File(results(folder) / "predictions-1.h5") as file:
        return np.asarray(file["models"])


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of four models that loses no rank."""
    folder = prepared(tmp_path_factory.mktemp("undisturbed"))
    with outlasting_job([BENCH, "--set", *SETTINGS, "GROUPS=4", "DEGREE=1"], 4, folder) as job:
        finished = job.wait(LONG_END)
    assert finished.returncode == 0, finished.stderr
    return folder


@pytest.mark.parametrize(
    ("failure", "left"),
    [
        pytest.param("2 training 12 kill", [0, 1, 3], marks=pytest.mark.slow),
        pytest.param("3 validating 2 kill", [0, 1, 2], marks=pytest.mark.exhaustive),
        pytest.param("1 voting 1 kill", [0, 2, 3], marks=pytest.mark.exhaustive),
        pytest.param("1 training 12 raise", [0, 2, 3], marks=pytest.mark.exhaustive),
        pytest.param("3 training 12 stop", [0, 1, 2], marks=pytest.mark.exhaustive),
    ],
)
def test_the_other_models_end_as_if_no_rank_had_been_lost(
    tmp_path: Path, undisturbed: Path, failure: str, left: list[int]
) -> None:
    finished = ended(tmp_path, 4, failure, "GROUPS=4", "DEGREE=1", "WATCHDOG=3")
    lost = ({*range(4)} - {*left}).pop()
    assert finished.returncode == 3 and finished.leftovers == [], finished.stderr
    said = "raised RuntimeError" if "raise" in failure else "is lost"
    assert re.search(rf"hpcai: rank {lost} on .*{said}", finished.stderr), finished.stderr
    assert f"Models  : 3 of 4 to the end; a rank was lost of group {lost}\n" in finished.stdout
    found = result(tmp_path)
    test = found["tests"][0]
    assert (test["verdict"], test["status"], test["p"]) == ("PASSED", "INVALID", 4)
    assert "models 3 of 4, official all" in test["reasons"] and found["summary"]["complete"]
    assert not (results(tmp_path) / checksums.BROKEN_OFF).exists()
    assert (classes(tmp_path) == classes(undisturbed)[left]).all()
    assert verified(tmp_path)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("failures", "left"),
    [
        pytest.param("2 training 12 kill and 3 recovering 1 kill", [0, 1], marks=pytest.mark.slow),
        pytest.param("2 training 12 kill and 1 remaking 1 kill", [0, 3], marks=pytest.mark.exhaustive),
        pytest.param("2 training 12 kill and 3 training 20 kill", [0, 1], marks=pytest.mark.exhaustive),
    ],
)
def test_a_second_rank_is_lost_while_the_others_recover(
    tmp_path: Path, undisturbed: Path, failures: str, left: list[int]
) -> None:
    finished = ended(tmp_path, 4, failures, "GROUPS=4", "DEGREE=1")
    assert finished.returncode == 3 and finished.leftovers == [], finished.stderr
    assert "Models  : 2 of 4 to the end" in finished.stdout, finished.stdout
    assert (classes(tmp_path) == classes(undisturbed)[left]).all()
    assert result(tmp_path)["summary"]["complete"] and verified(tmp_path)


@pytest.mark.exhaustive
@pytest.mark.parametrize("failure", ["2 counting 1 kill", "1 counting 2 kill", "3 closing 1 kill"])
def test_a_rank_is_lost_between_two_tests_or_after_the_last(tmp_path: Path, failure: str) -> None:
    finished = ended(tmp_path, 4, failure, "GROUPS=4", "DEGREE=1", "REPEAT=2")
    found = result(tmp_path)
    assert finished.leftovers == [] and found["summary"]["complete"], finished.stderr
    assert [test["verdict"] for test in found["tests"]] == ["PASSED"] * 2 and verified(tmp_path)
    assert finished.stdout.count("End of Tests.") == 1


@pytest.mark.exhaustive
@pytest.mark.parametrize("mapping", ["row", "column"])
def test_a_group_of_several_ranks_ends_with_one_of_them(tmp_path: Path, mapping: str) -> None:
    """Also that of rank 0, which then only writes the result."""
    other = "1" if mapping == "row" else "2"
    finished = ended(tmp_path, 4, f"{other} training 12 kill", "GROUPS=2", "DEGREE=2", f"MAPPING={mapping}")
    assert finished.returncode == 3 and finished.leftovers == [], finished.stderr
    assert "Models  : 1 of 2 to the end; a rank was lost of group 0\n" in finished.stdout
    assert result(tmp_path)["tests"][0]["verdict"] == "PASSED" and verified(tmp_path)


@pytest.mark.parametrize(
    ("rank", "grid", "left"),
    [
        pytest.param(2, "3 GROUPS\n1 DEGREE", 2, marks=pytest.mark.slow),
        pytest.param(1, "2 GROUPS\n2 DEGREE", 1, marks=pytest.mark.exhaustive),
        pytest.param(3, "2 GROUPS\n2 DEGREE", 1, marks=pytest.mark.exhaustive),
    ],
)
def test_a_search_goes_on_without_the_group(tmp_path: Path, rank: int, grid: str, left: int) -> None:
    folder = prepared(tmp_path)
    (folder / "input.dat").write_text(SEARCH.format(grid=grid))
    groups = int(grid[0])
    with outlasting_job([FAILING, rank, "trying", 2, "kill"], groups * int(grid[-8]), folder) as job:
        finished = job.wait(LONG_END)
    assert finished.returncode == 3 and finished.leftovers == [], finished.stderr
    assert f"Groups  : {left} of {groups} to the end" in finished.stdout
    test = result(folder)["tests"][0]
    assert test["verdict"] == "PASSED" and len(test["raw"]["trials"]) == 9 and verified(folder)
    assert "official all" not in " ".join(test["reasons"])


@pytest.mark.exhaustive
@pytest.mark.parametrize("algorithm", ["torus", "hierarchical"])
def test_a_group_ends_within_its_all_reduce_of_rows_or_nodes(
    tmp_path: Path, algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HPCAI_TEST_RANKS_PER_NODE", "2")
    finished = ended(tmp_path, 8, "6 training 12 kill", "GROUPS=2", "DEGREE=4", f"ALLREDUCE={algorithm}")
    assert finished.returncode == 3 and finished.leftovers == [], finished.stderr
    assert "Models  : 1 of 2 to the end; a rank was lost of group 1\n" in finished.stdout
    assert result(tmp_path)["tests"][0]["verdict"] == "PASSED" and verified(tmp_path)


@pytest.mark.exhaustive
def test_detectors_go_on_without_the_group(tmp_path: Path) -> None:
    (tmp_path / "input.dat").write_text(WEATHER)
    with outlasting_job([FAILING, 1, "training", 12, "kill"], 3, tmp_path) as job:
        finished = job.wait(LONG_END)
    assert finished.returncode == 3 and finished.leftovers == [], finished.stderr
    assert "Models  : 2 of 3 to the end; a rank was lost of group 1\n" in finished.stdout
    assert result(tmp_path)["tests"][0]["verdict"] == "PASSED" and verified(tmp_path)


@pytest.mark.exhaustive
def test_without_rank_0_the_job_ends_and_says_how_to_go_on(tmp_path: Path) -> None:
    finished = ended(tmp_path, 4, "0 training 12 kill", "GROUPS=4", "DEGREE=1")
    assert finished.returncode != 0 and finished.leftovers == []
    assert re.search(r"^hpcai: rank 0 on .*, group 0, was killed by signal 9", finished.stderr, re.MULTILINE)
    assert f"hpcai: to go on: bench.py --resume {results(tmp_path)}" in finished.stderr
    assert (results(tmp_path) / checksums.BROKEN_OFF).exists() and verified(tmp_path)


@pytest.mark.exhaustive
@pytest.mark.parametrize("rank", [0, 2])
def test_a_rank_that_is_lost_before_the_first_test_ends_the_job(tmp_path: Path, rank: int) -> None:
    finished = ended(tmp_path, 4, f"{rank} set-up 1 kill", "GROUPS=4", "DEGREE=1")
    assert finished.leftovers == [] and finished.returncode == 3, (finished.returncode, finished.stderr)


@pytest.mark.exhaustive
def test_a_rank_that_exits_by_itself_ends_the_job(tmp_path: Path) -> None:
    """The launcher does not tell the others, which would wait for it."""
    finished = ended(tmp_path, 4, "2 training 12 os-exit-7", "GROUPS=4", "DEGREE=1")
    assert finished.returncode != 0 and finished.leftovers == []
    assert re.search("group 2, .*; the others were not told of it$", finished.stderr, re.MULTILINE), finished.stderr
    assert (results(tmp_path) / checksums.BROKEN_OFF).exists() and verified(tmp_path)


@pytest.mark.slow
def test_a_rank_that_exits_is_named_where_no_rank_is_outlasted(tmp_path: Path) -> None:
    """After such a death the launcher reads the stderr of no other rank."""
    finished = ended(tmp_path, 2, "1 training 2 os-exit-7", "GROUPS=2", "DEGREE=1", options=())
    assert finished.returncode == 7 and finished.leftovers == []
    assert re.search("^hpcai: rank 1 on .*, group 1, .* in test 1", finished.stderr, re.MULTILINE), finished.stderr


@pytest.mark.exhaustive
def test_a_run_whose_only_group_is_lost_is_broken_off_and_resumed(tmp_path: Path) -> None:
    finished = ended(tmp_path, 2, "1 training 12 kill", "GROUPS=1", "DEGREE=2")
    assert finished.returncode == 3, finished.stderr
    assert "BROKEN OFF after 0 of 1 tests by loss of rank 1." in finished.stdout
    assert result(tmp_path)["broken_off"]["cause"] == "loss of rank 1" and verified(tmp_path)
    with outlasting_job([BENCH, "--resume", results(tmp_path)], 2, tmp_path) as job:
        assert job.wait(LONG_END).returncode == 0
    assert result(tmp_path)["tests"][0]["verdict"] == "PASSED" and verified(tmp_path)


@pytest.mark.exhaustive
def test_an_idle_rank_that_is_lost_costs_no_group(tmp_path: Path) -> None:
    finished = ended(tmp_path, 3, "2 waiting 3 kill", "GROUPS=2", "DEGREE=1")
    assert finished.returncode == 0 and "Models  :" not in finished.stdout, finished.stderr
    assert result(tmp_path)["tests"][0]["verdict"] == "PASSED" and verified(tmp_path)


@pytest.mark.exhaustive
def test_a_result_that_hides_a_lost_group_does_not_verify(tmp_path: Path) -> None:
    ended(tmp_path, 4, "2 training 12 kill", "GROUPS=4", "DEGREE=1")
    path = results(tmp_path) / "result.json"
    for lost in ([], [1], [2, 3], [0, 1, 2, 3], [2, 2], [-1], [4], [10**9]):
        found = result(tmp_path)
        found["tests"][0]["raw"]["lost_groups"] = lost
        shutil.copytree(results(tmp_path), tmp_path / "other", dirs_exist_ok=True)
        (tmp_path / "other" / path.name).write_text(json.dumps(found))
        assert run_job([BENCH, "--verify", tmp_path / "other"], None, tmp_path).returncode == 1, lost
