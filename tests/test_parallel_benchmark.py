"""The parts of benchmarks/parallel.py and of its ranks that need no hosts: cases, modes, rows, bytes by formula."""

import subprocess
import sys
from importlib import import_module
from types import ModuleType

import pytest
from launch import ROOT, run_job

FOUND = {
    "measured": {
        "PARALLEL=data": [[2.0, 3.1e6, 3e6], [1.0, 3.3e6, 3e6], [4.0, 3.2e6, 3e6]],
        "PARALLEL=mixed SPLIT=2x1x2": [[1.0, 1e6, 2e6], [1.0, 1e6, 2e6], [1.0, 1e6, 2e6]],
    },
    "needed": {"PARALLEL=data": 3e6, "PARALLEL=mixed SPLIT=2x1x2": 2.5e6},
    "refused": {"PARALLEL=tensor": "a reason"},
}


@pytest.fixture
def parallel(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The benchmark, which imports what lies beside it."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return import_module("parallel")


def test_a_case_is_a_network_with_pixels_and_batch(parallel: ModuleType) -> None:
    assert parallel.trained("resnet8:32:4") == ("resnet8", 32, 4)
    assert str(parallel.trained("resnet8:32:4")) == "resnet8 at 32², batch 4 a rank"
    for wrong in ("resnet8", "resnet8:32:x"):
        with pytest.raises(ValueError, match="unpack|literal"):
            parallel.trained(wrong)


def test_mixed_modes_need_two_ranks_a_host(parallel: ModuleType) -> None:
    alone = ["PARALLEL=data", "PARALLEL=tensor", "PARALLEL=pipeline"]
    assert parallel.paths(1) == alone
    assert parallel.paths(2) == [*alone, "PARALLEL=mixed SPLIT=2x1x2", "PARALLEL=mixed SPLIT=1x2x2"]


def test_rows_have_medians_and_bytes_counted_beside_those_by_formula(parallel: ModuleType) -> None:
    head, data, mixed, refused = parallel.rows(FOUND, 8)
    assert head.split()[-4:] == ["of", "rank", "by", "formula"]
    assert data.split() == ["data", "4.0", "2.0-8.0", "2000.0", "1.00", "(1.00-1.00)", "3.20", "3.000", "3.000"]
    assert mixed.split()[:2] == ["mixed", "2x1x2"] and mixed.split()[2:5] == ["8.0", "8.0-8.0", "1000.0"]
    assert mixed.split()[5:] == ["2.00", "(1.00-4.00)", "1.00", "2.000", "2.500"]
    assert refused == "tensor: refused: a reason"


def test_a_job_that_fails_or_takes_too_long_ends_the_benchmark(parallel: ModuleType) -> None:
    def failing() -> int:
        raise RuntimeError("no rank")

    def late() -> int:
        raise subprocess.TimeoutExpired("mpirun", 3)

    for main, said in ((failing, "name: the job failed\nno rank"), (late, "name: the job took more than 3 s")):
        with pytest.raises(SystemExit) as ended:
            parallel.end(main, "name")
        assert ended.value.code == said


def test_without_tools_nothing_is_measured() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "parallel.py")]
    finished = subprocess.run(command, env={"PATH": ""}, capture_output=True, text=True, check=False)
    assert finished.returncode == 0 and finished.stdout.startswith("benchmarks/parallel.py: not run: ")


STEPS = """
from argparse import Namespace

import link_steps
from hpcai.comm.rendezvous import process_group

paths = ["PARALLEL=data", "PARALLEL=tensor", "PARALLEL=pipeline", "PARALLEL=mixed SPLIT=2x1x2"]
options = Namespace(network="resnet8", pixels=16, batch=2, rounds=1, steps=2, paths=paths)
link_steps.LINK, groups = "lo", link_steps.Groups()
with process_group(groups.of(link_steps.case_of(options, "PARALLEL=data")), "localhost", link_steps.CPU):
    found = link_steps.measure(options, groups)
assert not found["refused"] and list(found["measured"]) == [*paths, "none"]
for path, ((_, _, counted),) in found["measured"].items():
    assert abs(counted - found["needed"][path]) <= 1e-9 * counted and (counted > 0 or path == "none"), (path, found)
"""


@pytest.mark.exhaustive
def test_ranks_count_the_bytes_that_each_mode_needs_by_formula() -> None:
    finished = run_job(["-c", STEPS], 4, ROOT, env={"PYTHONPATH": f"{ROOT}:{ROOT / 'benchmarks'}"})
    assert finished.returncode == 0, finished.stderr
