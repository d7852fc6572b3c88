"""A workload in a folder of its own (tests/toy_workload), added by a name in HPCAI_WORKLOADS: every part of a run.

No product file names it. Its quality is an error, of which smaller is better.
"""

import csv
import json
from collections.abc import Iterator
from functools import partial
from math import pi
from pathlib import Path
from typing import Any

import h5py
import pytest
from launch import BENCH, ROOT, run_job
from msgspec import convert
from report_readers import LOOSE_ROW, ROW
from small_run import Json, renewed
from toy_runs import results_of, with_workload
from toy_workload.claims import CLAIMS
from toy_workload.record import ToyRow

from hpcai.errors import InputError
from hpcai.inputfile import Case
from hpcai.record.machine import Environment
from hpcai.results.alterations import changed
from hpcai.results.claim import Claim, Subject, violated
from hpcai.workloads import registry
from hpcai.workloads.registry import FURTHER, workloads

INPUT = """\
Random points
On both grids of two ranks
toy        OUTPUT
0.25       TELEMETRY
[toy]
1 2        GROUPS
2 1        DEGREE
1000 64K   POINTS
0.01       GOAL
"""
POINTS = (2000, 2 * 2**16)


hpcai = partial(with_workload, "toy_workload")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of results of a run on two ranks."""
    return results_of("toy_workload", INPUT, tmp_path_factory.mktemp("toy"))


@pytest.fixture
def result(results: Path) -> Json:
    return dict(json.loads((results / "result.json").read_text("utf-8")))


def test_no_product_file_names_the_workload() -> None:
    product = [*(ROOT / "hpcai").rglob("*.py"), *(ROOT / "kernels").rglob("*.py"), BENCH]
    assert not [path for path in product if "toy" in path.read_text("utf-8").lower()]
    assert "toy" not in [workload.name for workload in workloads()]


def test_the_report_has_rows_of_hpl(results: Path) -> None:
    lines = (results / "report.txt").read_text("utf-8").splitlines()
    rows = [line.split() for line in lines if ROW.match(line)]
    assert [line.split() for line in lines if LOOSE_ROW.search(line)] == rows
    first, second = POINTS
    grids = [("1", "2"), ("1", "2"), ("2", "1"), ("2", "1")]
    assert [tuple(row[3:5]) for row in rows] == grids
    assert [int(row[1]) for row in rows] == [first, second] * 2 and {row[0] for row in rows} == {"WR90N0N0"}


def test_the_lines_of_the_workload_are_printed(results: Path, result: Json) -> None:
    report = (results / "report.txt").read_text("utf-8")
    for words in (
        "(9 toy)",
        "in the timed region; of toy points.",
        "sums of hits: differing ranks=        0.0000000 ...... PASSED",
        "violated claims=        0.0000000 ...... PASSED",
        "lie within the quarter circle",
        "Status  : UNOFFICIAL; workload without official rules",
        "Final Summary::HPCAI result is UNOFFICIAL",
        "mpoints=",
        "End of Tests.",
    ):
        assert words in report
    for test in result["tests"]:
        assert f"error of pi= {test['scores']['quality']:16.7f}" in report


def test_a_smaller_error_is_better(results: Path, result: Json) -> None:
    few, many = result["tests"][:2]
    for test, points in ((few, POINTS[0]), (many, POINTS[1])):
        assert test["scores"]["quality"] == pytest.approx(abs(4 * sum(test["raw"]["hits"]) / points - pi))
        assert test["scores"]["reached"] == (test["scores"]["quality"] <= 0.01)
    assert [few["scores"]["reached"], many["scores"]["reached"]] == [False, True]
    lines = [line.split() for line in (results / "report.txt").read_text().splitlines() if "quality(error)/" in line]
    assert [line[-1] for line in lines] == ["MISSED", "REACHED"] * 2
    shares = [float(line[-3]) for line in lines[:2]]
    assert shares == pytest.approx([0.01 / test["scores"]["quality"] for test in (few, many)], abs=1e-7)
    (best,) = result["summary"]["best"]
    assert (best["index"], best["quality"]) == (2, many["scores"]["quality"])
    assert best["figures"] == {"mpoints": many["scores"]["points_per_second"] / 1e6}


def test_csv_and_series_have_the_workloads_values(results: Path, result: Json) -> None:
    with (results / "result.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [line["workload"] for line in lines] == ["toy"] * 4
    for line, test in zip(lines, result["tests"], strict=True):
        assert float(line["quality"]) == test["scores"]["quality"] and int(line["n"]) == test["n"]
        assert float(line["points_per_second"]) == test["scores"]["points_per_second"]
    with h5py.File(results / "series.h5") as file:
        assert file["test-3/hits/hits"][()].tolist() == result["tests"][2]["raw"]["hits"]


def tampered(result: Json, folder: Path, path: str, value: Any) -> str:
    """A result with one number of its first test altered, in a file of its own."""
    changed(path, value)(result["tests"][0])
    file = folder / f"{path.replace('.', '-')}.json"
    file.write_text(json.dumps(renewed(result)))
    return str(file)


def test_the_result_is_verified_and_alterations_are_detected(results: Path, result: Json, tmp_path: Path) -> None:
    derived = tampered(json.loads(json.dumps(result)), tmp_path, "scores.quality", 1e-6)
    raw = tampered(json.loads(json.dumps(result)), tmp_path, "raw.hits.0", 1571)
    unknown = tampered(json.loads(json.dumps(result)), tmp_path, "raw.pi", 3)
    found = hpcai(tmp_path, "--verify", results, derived, raw, unknown)
    assert found.returncode == 1
    sound, *different = found.stdout.splitlines()
    assert sound.startswith(f"{results}: every number follows from the raw measurements")
    text = "\n".join(different)
    assert "tests[0].scores.quality: 1e-06 is stored" in text
    assert "tests[0].raw does not fulfil: hits: of the points that SEED draws" in text
    assert "tests[0].raw: Object contains unknown field `pi`" in text
    assert [line.split(": ")[1] for line in different if line.startswith(str(tmp_path))] == [
        *["no SHA256SUMS of this result lies beside it", "NOT VERIFIED"] * 2, "NOT VERIFIED"
    ]


def test_without_its_declaration_its_results_are_refused(results: Path, tmp_path: Path) -> None:
    found = run_job([BENCH, "--verify", results], None, tmp_path)
    assert found.returncode == 1 and "input.sections[0].name: unknown; allowed: kernels, comm" in found.stdout


@pytest.mark.slow
def test_plan_schema_and_input_include_the_workload(tmp_path: Path) -> None:
    schema = json.loads(hpcai(tmp_path, "--schema").stdout)
    assert schema["$defs"]["ToyRow"]["properties"]["workload"]["enum"] == ["toy"]
    assert {"$ref": "#/$defs/ToyRow"} in schema["$defs"]["Result"]["properties"]["tests"]["items"]["anyOf"]
    assert hpcai(tmp_path, "--write-input").returncode == 0
    shipped = (tmp_path / "input.dat").read_text()
    assert "[toy]                       pi from random points" in shipped
    (tmp_path / "input.dat").write_text(INPUT)
    planned = hpcai(tmp_path, "--plan", "--ranks", "2")
    assert planned.returncode == 0 and "points: coordinates of the points" in planned.stdout
    assert "[kernels], [comm], [health] and [toy] have no network" in planned.stdout
    refused = hpcai(tmp_path, "--plan", "--set", "POINTS=0,7", "GOAL=5")
    assert refused.returncode == 2
    assert "POINTS: 0 is out of range; allowed: a whole number from 1 to 1073741824" in refused.stderr
    assert "GOAL: 5 is out of range; allowed: a number above 0, up to 4" in refused.stderr


@pytest.mark.parametrize(
    ("packages", "reason"),
    [
        ("toy_workload,no_such_package", "HPCAI_WORKLOADS: no_such_package cannot be imported: No module named"),
        ("toy_workload,toy_workload", "HPCAI_WORKLOADS: two workloads have the same section or digit of T/V"),
    ],
)
def test_packages_that_cannot_be_added_are_refused(packages: str, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FURTHER, packages)
    with pytest.raises(InputError, match=reason):
        registry._packages.__wrapped__()


def entries(result: Json) -> Iterator[tuple[Json, Environment]]:
    environment = convert(result["environment"], Environment)
    yield from ((test, environment) for test in result["tests"])


def subject_of(entry: Json, environment: Environment) -> Subject:
    return Subject(Case(entry["index"], "toy", entry["settings"]), convert(entry, ToyRow), environment)


@pytest.mark.parametrize("claim", [claim for group in CLAIMS for claim in group], ids=lambda claim: claim.text)
def test_each_claim_is_violated_by_its_counterexample(result: Json, claim: Claim) -> None:
    for entry, environment in entries(result):
        assert list(violated(CLAIMS, subject_of(entry, environment))) == []
        claim.counterexample(entry)
        assert claim.text in violated(CLAIMS, subject_of(entry, environment))
