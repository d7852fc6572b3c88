"""Real runs in every precision: what they print, what follows from it, and what skipped steps may not earn."""

import json
from pathlib import Path
from typing import Any

import pytest
from fault_runs import FAULTY, OPERATIONS, Run
from hpcai.report.precision import OF_BYTES
from hpcai.result.judge import tv
from hpcai.result.precision import emulated
from job_folder import START, listing, prepared
from launch import BENCH, mpirun, run_job
from small_run import cases_of

from hpcai import result as results
from hpcai.record import check_declarations as declared
from hpcai.report import consistency, verify

pytestmark = pytest.mark.skipif(mpirun() is None, reason="NO mpirun: PRECISIONS NOT RUN")

Json = dict[str, Any]
PRECISIONS = ("fp32", "fp16", "bf16", "pure16", "int8")
ROUNDED = "max|C-LR|/(8*sqrt(N)*u*sqrt((LoL)(RoR))+v*|LR|)"
ONE_MODEL = ["GROUPS=1", "DEGREE=2"]


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One model on two ranks, in the five precisions that any CPU has."""
    return Run(tmp_path_factory.mktemp("sweep"), [BENCH], [f"PRECISION={','.join(PRECISIONS)}", *ONE_MODEL])


@pytest.fixture(scope="module")
def overflow(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """An overflow on one of two ranks; then one whose step is credited."""
    faults = ("overflow_on_one_rank", "skipped_step_credited")
    settings = ["PRECISION=fp16", "LEARNRATE=0.05,0.06", *ONE_MODEL]
    return Run(tmp_path_factory.mktemp("overflow"), [FAULTY, ",".join(faults)], settings)


def printed(run: Run, index: int, start: str) -> str:
    """The line of a test's block that begins so, without that."""
    block = run.job.stdout.split("\nT/V                N")[1 + index]
    (line,) = (line.strip() for line in block.splitlines() if line.strip().startswith(start))
    return line.removeprefix(start)


def test_all_precisions_pass(sweep: Run) -> None:
    assert sweep.job.returncode == 0, sweep.job.stdout
    assert [set(row.values()) for row in sweep.rows] == [{"PASSED"}] * 5
    assert [ROUNDED in row for row in sweep.rows] == [False, True, True, True, False]
    assert [declared.WRONG.name in row for row in sweep.rows] == [False] * 4 + [True]
    assert [test["tv"] for test in sweep.result["tests"]] == [f"WR11{letter}1V4" for letter in "SHBPI"]
    assert [test["status"] for test in sweep.result["tests"]] == ["UNOFFICIAL"] * 4 + ["INVALID"]


def test_fewer_than_16_bits_are_not_valid_and_the_row_says_so(sweep: Run) -> None:
    reason = "precision 8 bits, official at least 16"
    assert sweep.result["tests"][4]["reasons"][0] == reason
    assert printed(sweep, 4, "Status  : ").startswith(f"INVALID; {reason}; ")
    assert printed(sweep, 4, "Precision: int8, ").endswith(OF_BYTES)
    assert sweep.result["summary"]["valid"] == "INVALID"
    assert "Final Summary::HPCAI result is INVALID; precision 8 bits" in sweep.job.stdout


def test_each_row_says_what_the_probe_found(sweep: Run) -> None:
    for index, test in enumerate(sweep.result["tests"]):
        line, probe = printed(sweep, index, "Precision: "), test["raw"].get("probe")
        assert ("probe" in test["phases"]) == (probe is not None) == (index > 0)
        if probe is None:
            assert line == "fp32"
            continue
        kind = "emulated" if probe["converted"] or probe["seconds"] > probe["fp32_seconds"] else "native"
        ratio = probe["fp32_seconds"] / probe["seconds"]
        assert line.startswith(f"{PRECISIONS[index]}, {kind} ({ratio:.2f} of fp32 in a probe")
        assert line.removesuffix(OF_BYTES).endswith("; convolutions in fp32 from and to 16 bits)") == probe["converted"]
        assert float(printed(sweep, index, "speed of the precision in a probe, of fp32=")) == pytest.approx(ratio)


def test_speed_up_and_quality_are_those_against_the_first_case(sweep: Run) -> None:
    first, *others = sweep.result["tests"]
    names = ("speed-up over the sweep's first case=", "quality difference to the sweep's first case=")
    assert [printed(sweep, 0, name).strip() for name in names] == ["n/a, the first"] * 2
    for index, test in enumerate(others, start=1):
        speedup, difference = (float(printed(sweep, index, name)) for name in names)
        assert speedup == pytest.approx(test["gflops"] / first["gflops"], abs=1e-6)
        assert difference == pytest.approx((test["raw"]["correct"] - first["raw"]["correct"]) / 50, abs=1e-6)


def test_only_tests_that_are_alike_otherwise_are_compared(sweep: Run) -> None:
    first, second = sweep.result["tests"][:2]
    case = cases_of(sweep.result)[1]
    other = {**first, "settings": {**first["settings"], "BATCH": 16}}
    ours = {**first, "settings": {**first["settings"], "KERNELS": "custom"}}
    idle = {**first, "scores": {**first["scores"], "flops": 0.0}}
    for earlier, expected in (
        ([first], True), ([other, first], True), ([ours], True), ([other], False), ([idle], False), ([], False)
    ):
        scores = results.judge(case, second["raw"], earlier)["scores"]
        assert (scores["speedup"] is not None) == (scores["quality_difference"] is not None) == expected
    assert results.judge(case, second["raw"], [idle])["scores"]["efficiency"] == 1.0


@pytest.mark.parametrize("name", ["sweep", pytest.param("overflow", marks=pytest.mark.slow)])
def test_the_result_can_be_verified(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text(json.dumps(request.getfixturevalue(name).result))
    assert verify.differences(path) == []


@pytest.mark.slow
def test_a_skipped_step_earns_nothing(overflow: Run) -> None:
    test = overflow.result["tests"][0]
    raw, operations = test["raw"], test["operations"]
    assert test["verdict"] == "PASSED" and set(overflow.rows[0].values()) == {"PASSED"}
    steps, samples = raw["skipped_steps"], raw["skipped_samples"]
    assert 1 <= steps < raw["steps"] == 5 and samples == 16 * steps
    assert test["n"] == raw["samples"] == 76 - samples
    assert operations["credited"] == (76 - samples) * operations["per_sample"]
    assert operations["credited"] + operations["skipped"] == operations["executed"]
    assert test["gflops"] == pytest.approx(operations["credited"] / test["seconds"] / 1e9)
    assert printed(overflow, 0, "Steps   :").startswith(
        f" 5 in all, {steps} left out after overflow with {samples} samples, "
    )


@pytest.mark.slow
def test_a_skipped_step_that_is_credited_fails(overflow: Run) -> None:
    assert overflow.job.returncode == 1
    assert {name for name, verdict in overflow.rows[1].items() if verdict == "FAILED"} == {OPERATIONS}
    assert overflow.result["tests"][1]["n"] == 76


def altered(sweep: Run, index: int, **raw: Any) -> set[str]:
    """The claims that a test breaks with other raw measurements, its samples those that skipped ones leave."""
    test = sweep.result["tests"][index]["raw"]
    found: Json = {**test, **{key: value for key, value in raw.items() if value is not None}}
    found["samples"] = 76 - found["skipped_samples"]
    for key in [key for key, value in raw.items() if value is None]:
        del found[key]
    return set(consistency.contradictions(cases_of(sweep.result)[index], found))


def test_claims_of_a_precision(sweep: Run) -> None:
    probe = sweep.result["tests"][1]["raw"]["probe"]
    assert altered(sweep, 1) == altered(sweep, 1, skipped_steps=1, skipped_samples=16) == set()
    wanted = "probe if, and only if, PRECISION is not fp32"
    assert wanted in altered(sweep, 0, probe=probe)
    assert altered(sweep, 1, probe=None) == {wanted}
    assert altered(sweep, 1, probe={**probe, "seconds": 0.0}) == {"probe: seconds > 0"}
    assert altered(sweep, 1, probe={**probe, "seconds": 100.0}) == {"probe: within its phase"}
    memory = sweep.result["tests"][1]["raw"]["memory"]
    one_alone = "probe: converted where the first rank converts"
    assert altered(sweep, 1, probe={**probe, "converted": False}, memory={**memory, "converted": True}) == {one_alone}
    assert altered(sweep, 1, skipped_steps=1, skipped_samples=17) == {"skipped_samples: those of skipped_steps"}
    assert altered(sweep, 1, skipped_steps=6, skipped_samples=16) == {"skipped_steps <= steps"}
    assert altered(sweep, 2, skipped_steps=1, skipped_samples=16) == {"skipped_steps: in fp16 only"}


def test_wrong_elements_are_counted_in_int8_and_nowhere_else(sweep: Run) -> None:
    residuals, of_bytes = (sweep.result["tests"][index]["raw"]["residuals"] for index in (1, 4))
    counted = "wrong elements: counted in int8 only"
    assert altered(sweep, 4) == set()
    assert altered(sweep, 1, residuals={**residuals, "wrong": of_bytes["wrong"]}) == {counted}
    assert altered(sweep, 4, residuals={name: of_bytes[name] for name in ("scaled", "elementwise")}) == {counted}
    raw = sweep.result["tests"][4]["raw"]
    wrong = {**raw, "residuals": {**of_bytes, "wrong": {**of_bytes["wrong"], "value": 1}}}
    judged = results.judge(cases_of(sweep.result)[4], wrong, [])
    assert judged["verdict"] == "FAILED"
    assert [check["name"] for check in judged["checks"] if check["verdict"] == "FAILED"] == [declared.WRONG.name]


def test_letters_and_what_is_emulated(sweep: Run) -> None:
    settings = dict(cases_of(sweep.result)[0].settings)
    assert [tv({**settings, "PRECISION": name})[4] for name in (*PRECISIONS, "tf32")] == [*"SHBPIT"]
    for fp32, seconds, converted, expected in ((2, 1, False, False), (1, 2, False, True), (2, 1, True, True)):
        assert emulated({"probe": {"fp32_seconds": fp32, "seconds": seconds, "converted": converted}}) is expected
    assert not emulated({})


def test_what_the_device_lacks_is_refused_before_anything_runs(tmp_path: Path) -> None:
    folder = prepared(tmp_path)
    before = listing(folder)
    job = run_job([BENCH, "--set", "PRECISION=fp32,tf32"], 2, folder, START)
    assert (job.returncode, job.stdout, listing(folder)) == (2, "", before)
    assert "test 2 cannot be run: PRECISION tf32 on cpu: torch does not round" in job.stderr
