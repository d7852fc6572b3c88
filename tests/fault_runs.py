"""Runs of the real program on small real images, a sweep of two grids with a fault in each test."""

import json
import re
from collections.abc import Callable, Mapping, Set
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from idx_files import FILES, idx
from launch import ROOT, Finished, run_job

from hpcai.data import catalog
from hpcai.record import check_declarations as declared

FAULTY = ROOT / "tests" / "jobs" / "faulty.py"

RESIDUAL = "||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)"
ELEMENTWISE = "max|C-L*R|/(8*sqrt(N)*u*sqrt((LoL)*(RoR)))"
SUMS = "all-reduce of integers: wrong elements"
SAME = "parameters and statistics: differing ranks"
SAMPLES = "epochs with wrong training samples, all models"
DEVIATION = "replayed steps: worst deviation of the update"
LOST = "replayed steps: largest share of a term lost"
CHANGED = "weights changed outside of steps: ranks"
LOSS = "loss not finite: models"
OPERATIONS = "operations credited, not executed: samples"
VALIDATION = "validation samples not evaluated exactly once"
VENDOR_LOSS, GRADIENT, STATISTICS = COMPARED = (declared.LOSS.name, declared.GRADIENT.name, declared.STATISTICS.name)
CLAIMS = declared.CLAIMS.name
STALE, STILL, OUTSIDE, CLOCKS, OTHERS = BESIDE = tuple(each.name for each in declared.BESIDE)
ACCOUNTED, WALL = declared.ACCOUNTED.name, declared.TEST_CLOCKS.name
EVALUATED, RECOUNTED = declared.EVALUATED.name, declared.RECOUNTED.name
NETWORK, WEIGHTS = declared.NETWORK.name, declared.WEIGHTS.name
APART = declared.REPEATED.name
BOUND = declared.BOUND.name  # NOT CHECKED on processors that are not in the table of units
CEILING = declared.CEILING.name
PUBLISHED = declared.PUBLISHED.name
RECIPE, ORDER, DELIVERED, SEEN, SHARED = OF_CONTENT = (
    *(declared.RECIPE.name, declared.ORDER.name, declared.DELIVERED.name, declared.SEEN.name, declared.SHARED.name),
)
CHECKS = {
    RESIDUAL, ELEMENTWISE, NETWORK, WEIGHTS, SUMS, SAME, SAMPLES, DEVIATION, LOST, CHANGED, *BESIDE, *OF_CONTENT,
    LOSS, OPERATIONS, VALIDATION, EVALUATED, RECOUNTED, ACCOUNTED, WALL, CLAIMS,
}  # fmt: skip

INPUT = """\
Small real images, two grids
Each learning rate is a test of its own
[ensemble]
fashion:images    DATASET
1 2               GROUPS
2 1               DEGREE
8                 BATCH      no divisor of either shard: the last batch is a partial one
8                 RESOLUTION
1                 EPOCHS
0                 WARMUP
{rates}           LEARNRATE
"""
WEATHER = """\
Generated weather, two grids
Each learning rate is a test of its own
[weather]
generated         DATASET
48                RESOLUTION
2                 CLASSES
38                SAMPLES    no multiple of the batch on either grid: the last batch is a partial one
1 2               GROUPS
2 1               DEGREE
4                 BATCH
1                 EPOCHS
0                 WARMUP
{rates}           LEARNRATE
"""

FoundBy = Mapping[str, set[str]]  # checks that fail, by fault


def write_images(folder: Path) -> None:
    """A few real images in files of the published format."""
    dataset = catalog.open_dataset("fashion")
    folder.mkdir()
    for (images, labels), split, n in zip(FILES.values(), (dataset.train, dataset.validation), (76, 50), strict=True):
        few = np.arange(n)
        (folder / images).write_bytes(idx(split.images(few)[:, 0]))
        (folder / labels).write_bytes(idx(split.labels(few).astype(np.uint8)))


class Run:
    """A finished run of an input with the given number of learning rates: the job, and its verdicts on each test."""

    text = INPUT
    names = frozenset(CHECKS)
    ceiling = "NOT CHECKED"  # of real images; test_leak.py has generated ones

    def __init__(
        self, folder: Path, program: list[Any], settings: list[str], rates: int = 1, ranks: int = 2
    ) -> None:
        self.folder = folder
        write_images(folder / "images")
        text = self.text.format(rates=" ".join(f"0.{50 + number:03d}" for number in range(rates)))
        (folder / "input.dat").write_text(text)
        self.job: Finished = run_job([*program, "--set", "SEED=1", *settings], ranks, folder, timeout=300)
        assert "End of Tests." in self.job.stdout, self.job.stdout + self.job.stderr
        self.result = json.loads(next(folder.glob("results/*/result.json")).read_text())
        self.bounds: list[str] = []  # verdicts of BOUND, which depend on the machine
        self.rows = [self._checks(part) for part in self.job.stdout.split("\nT/V                N")[1:]]

    def _checks(self, part: str) -> dict[str, str]:
        """Verdict by check, of the report's lines below one row."""
        lines = re.findall(r"^ *(\S.*)= +(?:\d+\.\d{7}|n/a, .*) \.{6} (\w+(?: \w+)*)$", part, re.MULTILINE)
        checks = {name: verdict for name, verdict in lines if not re.fullmatch(r"quality\(\w+\)/target", name)}
        assert checks.pop(CEILING) == self.ceiling
        assert checks.pop(PUBLISHED) == "NOT CHECKED"  # of other images than the published ones
        self.bounds.append(checks.pop(BOUND))
        return checks


class WeatherRun(Run):
    """The same, for detectors that are trained on generated fields."""

    text = WEATHER
    names = frozenset(CHECKS - {EVALUATED, RECOUNTED})  # which are of classifiers
    ceiling = "PASSED"


class CustomRun(Run):
    """Images, by custom kernels."""

    names = frozenset(CHECKS.union(COMPARED))


def sweep(
    folder: Path, in_a_group: FoundBy, in_an_ensemble: FoundBy, *settings: str, kind: type[Run] = Run
) -> Run:
    """One job with all faults: those of one model on two ranks, then those of two models."""
    assert len(in_a_group) == len(in_an_ensemble)  # the sweep has the same number of learning rates for both grids
    return kind(folder, [FAULTY, ",".join([*in_a_group, *in_an_ensemble])], [*settings], len(in_a_group))


MARKS = pytest.mark.slow, pytest.mark.exhaustive  # of the two jobs


class Sweeps:
    """The faults of a file in two jobs: the first `first` of each grid, and the others.

    The first job is slow and the second exhaustive.
    """

    def __init__(self, in_a_group: FoundBy, in_an_ensemble: FoundBy, first: int, *settings: str) -> None:
        grids = (in_a_group, in_an_ensemble)
        self.parts = [[part(grid, 0, first) for grid in grids], [part(grid, first, None) for grid in grids]]
        self.settings = settings

    def cases(self) -> list[Any]:
        """Parameters of a test: the part, the place of a fault in it, its name, and the checks that FAIL."""
        return [
            pytest.param(
                number, index, fault, checks, id=f"{grid}-{fault}", marks=MARKS[number]
            )
            for number, grids in enumerate(self.parts)
            for index, (grid, fault, checks) in enumerate(
                (grid, fault, checks)
                for grid, faults in zip(("group", "ensemble"), grids, strict=True)
                for fault, checks in faults.items()
            )
        ]

    def fixture(self) -> Any:
        """A fixture for a test module: a function whose value is the run of a part, started at its first use."""

        @pytest.fixture(scope="module")
        def runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Run]:
            return cache(lambda number: sweep(tmp_path_factory.mktemp("faulty"), *self.parts[number], *self.settings))

        return runs

    def number(self, fault: str) -> int:
        """The test, from 1, of a fault of the first part."""
        return [*self.parts[0][0], *self.parts[0][1]].index(fault) + 1


def part(faults: FoundBy, first: int, end: int | None) -> FoundBy:
    """Faults from the first one to before the end."""
    return dict(islice(faults.items(), first, end))


def holds(run: Run, index: int, expected: set[str], perhaps: Set[str] = frozenset()) -> None:
    """Assert that a test of a run FAILED by these checks and no others; PASSED if there are none.

    A fault expected to be found by others may be found by the checks of content as well: they look at random samples.
    """
    row, test = run.rows[index], run.result["tests"][index]
    perhaps = perhaps if not expected or expected & {*OF_CONTENT} else perhaps | {*OF_CONTENT}
    assert set(row) == run.names | ({APART} if test["p"] > 1 else set())
    failed = {name for name, verdict in row.items() if verdict == "FAILED"}
    assert failed - perhaps == expected - perhaps, failed
    unchecked = {CLAIMS} if failed - {CLAIMS} else set()  # of a test that FAILED by a different check
    assert {name for name, verdict in row.items() if verdict != "PASSED"} == failed | unchecked
    assert all(row[name] == "NOT CHECKED" for name in unchecked)
    left_out = {CEILING: run.ceiling, PUBLISHED: "NOT CHECKED", BOUND: run.bounds[index]}
    assert {check["name"]: check["verdict"] for check in test["checks"]} == {**row, **left_out}
    assert test["verdict"] == ("FAILED" if expected else "PASSED")
    assert test["status"] == ("INVALID" if expected else "UNOFFICIAL")
