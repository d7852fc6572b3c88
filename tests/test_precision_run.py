"""Real runs in every precision: printed lines, derived values, and skipped steps without credit."""

import json
from pathlib import Path
from typing import Any

import pytest
from examples.training import rebuilt, subjects_of, violated_claims
from fault_runs import DEVIATION, FAULTY, LOST, OPERATIONS, STILL, Run
from job_folder import START, listing, prepared
from launch import BENCH, mpirun, run_job
from msgspec import ValidationError
from msgspec.structs import replace
from sample_records import plain

from hpcai.inputfile import Case
from hpcai.record.check_declarations import WRONG
from hpcai.record.entry import Row
from hpcai.record.loading import result_of
from hpcai.record.preflight import PrecisionProbe
from hpcai.report.rows import INT8
from hpcai.results.alterations import changed
from hpcai.results.claim import Subject
from hpcai.results.gains import emulated
from hpcai.results.measured import Before, Measured
from hpcai.results.row import tv
from hpcai.verification import verify
from hpcai.workloads.ensemble.checks import build
from hpcai.workloads.ensemble.record import EnsembleRow

pytestmark = pytest.mark.skipif(mpirun() is None, reason="NO mpirun: PRECISIONS NOT RUN")

PRECISIONS = ("fp32", "fp16", "bf16", "pure16", "halffp16", "int8")
ROUNDED = "max|C-LR|/(8*sqrt(N)*u*sqrt((LoL)(RoR))+v*|LR|)"
ONE_MODEL = ["GROUPS=1", "DEGREE=2"]


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One model on two ranks, in the six precisions that any CPU has."""
    return Run(tmp_path_factory.mktemp("sweep"), [BENCH], [f"PRECISION={','.join(PRECISIONS)}", *ONE_MODEL])


@pytest.fixture(scope="module")
def overflow(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """An overflow on one of two ranks; then one whose step is credited."""
    faults = ("overflow_on_one_rank", "skipped_step_credited")
    settings = ["PRECISION=fp16", "LEARNRATE=0.05,0.06", *ONE_MODEL]
    return Run(tmp_path_factory.mktemp("overflow"), [FAULTY, ",".join(faults)], settings)


def printed(run: Run, index: int, start: str) -> str:
    """The rest of the line of a test's block that begins with `start`."""
    block = run.job.stdout.split("\nT/V                N")[1 + index]
    (line,) = (line.strip() for line in block.splitlines() if line.strip().startswith(start))
    return line.removeprefix(start).strip()


@pytest.mark.slow
def test_all_precisions_pass(sweep: Run) -> None:
    assert sweep.job.returncode == 0, sweep.job.stdout
    assert [set(row.values()) for row in sweep.rows] == [{"PASSED"}] * 6
    assert [ROUNDED in row for row in sweep.rows] == [False, True, True, True, True, False]
    assert [WRONG.name in row for row in sweep.rows] == [False] * 5 + [True]
    assert [test["tv"] for test in sweep.result["tests"]] == [f"WR11{letter}1V4" for letter in "SHBPFI"]
    assert [test["status"] for test in sweep.result["tests"]] == ["UNOFFICIAL"] * 5 + ["INVALID"]


@pytest.mark.slow
def test_fewer_than_16_bits_are_not_valid_with_the_reason_in_the_row(sweep: Run) -> None:
    reason = "precision 8 bits, official at least 16"
    assert sweep.result["tests"][-1]["reasons"][0] == reason
    assert printed(sweep, 5, "Status  : ").startswith(f"INVALID; {reason.partition(', ')[0]}; ")
    assert printed(sweep, 5, "Precision: int8, ").endswith(INT8)
    assert sweep.result["summary"]["valid"] == "INVALID"
    assert "Final Summary::HPCAI result is INVALID; precision 8 bits" in sweep.job.stdout


@pytest.mark.slow
def test_each_row_has_the_findings_of_the_probe(sweep: Run) -> None:
    for index, test in enumerate(sweep.result["tests"]):
        line, probe = printed(sweep, index, "Precision: "), test["raw"]["preparation"]["probe"]
        assert (test["phases"]["probe"] is not None) == (probe is not None) == (index > 0)
        if probe is None:
            assert line == "fp32"
            continue
        kind = "emulated" if probe["converted"] or probe["seconds"] > probe["fp32_seconds"] else "native"
        ratio = probe["fp32_seconds"] / probe["seconds"]
        assert line.startswith(f"{PRECISIONS[index]}, {kind} ({ratio:.2f} of the speed of fp32 in a probe")
        assert line.removesuffix(INT8).endswith("; convolutions in fp32 from and to 16 bits)") == probe["converted"]
        assert printed(sweep, index, "speed of the precision in a probe / of fp32=") == f"{ratio:.7f}"


def correct(test: Any) -> int:
    """Validation samples that the ensemble classified correctly."""
    return int(test["raw"]["ensemble"]["correct"])


@pytest.mark.slow
def test_speed_up_and_quality_difference_are_relative_to_the_first_case(sweep: Run) -> None:
    first, *others = sweep.result["tests"]
    names = ("speed-up over the sweep's first case=", "quality difference to the sweep's first case=")
    assert [printed(sweep, 0, name).strip() for name in names] == ["n/a, the first"] * 2
    for index, test in enumerate(others, start=1):
        speedup, difference = (float(printed(sweep, index, name)) for name in names)
        assert speedup == pytest.approx(test["gflops"] / first["gflops"], abs=1e-6)
        assert difference == pytest.approx((correct(test) - correct(first)) / 50, abs=1e-6)


def subject(sweep: Run, index: int) -> Subject:
    """A test of the sweep."""
    return subjects_of(result_of(sweep.result))[index]


def row_of(case: Case, raw: Any, memory: Any, before: list[Row]) -> EnsembleRow:
    return build(case, Measured(raw, memory), Before(before))


@pytest.mark.slow
def test_only_tests_that_differ_in_the_precision_alone_are_compared(sweep: Run) -> None:
    first, second = subject(sweep, 0).entry, subject(sweep, 1)
    other = replace(first, settings={**first.settings, "BATCH": 16})
    custom = replace(first, settings={**first.settings, "KERNELS": "custom"})
    idle = replace(first, scores=replace(first.scores, flops=0.0))
    measured = (second.case, second.entry.raw, second.entry.memory)
    for earlier, expected in (
        ([first], True), ([other, first], True), ([custom], True), ([other], False), ([idle], False), ([], False)
    ):  # fmt: skip
        scores = row_of(*measured, earlier).scores
        assert (scores.speedup is not None) == (scores.quality_difference is not None) == expected
    assert row_of(*measured, [idle]).scores.efficiency == 1.0


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["sweep", "overflow"])
def test_the_result_can_be_verified(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text(json.dumps(request.getfixturevalue(name).result))
    assert verify.differences(path) == []


@pytest.mark.slow
def test_a_skipped_step_is_not_credited(overflow: Run) -> None:
    test = overflow.result["tests"][0]
    work, operations = test["raw"]["work"], test["operations"]
    assert test["verdict"] == "PASSED" and set(overflow.rows[0].values()) == {"PASSED"}
    steps, samples = work["skipped_steps"], work["skipped_samples"]
    assert 1 <= steps < work["steps"] == 5 and samples == 16 * steps
    assert test["n"] == work["samples"] == 76 - samples
    assert operations["credited"] == (76 - samples) * operations["per_sample"]
    assert operations["credited"] + operations["skipped"] == operations["executed"]
    assert test["gflops"] == pytest.approx(operations["credited"] / test["seconds"] / 1e9)
    assert printed(overflow, 0, "Steps   :").startswith(
        f"5 in all, {steps} skipped after overflow with {samples} samples, "
    )


@pytest.mark.slow
def test_a_skipped_step_that_is_credited_fails(overflow: Run) -> None:
    assert overflow.job.returncode == 1
    assert {name for name, verdict in overflow.rows[1].items() if verdict == "FAILED"} == {OPERATIONS}
    assert overflow.result["tests"][1]["n"] == 76


@pytest.mark.exhaustive
def test_faults_in_halffp16_are_detected(tmp_path: Path) -> None:
    faults: dict[str, set[str]] = {
        "overflow_on_one_rank": set(),
        "overflowed_step_taken": {DEVIATION},
        "gradients_unscaled_by_half": {LOST},
        "convolutions_not_updated": {LOST},
        "gradient_of_a_rank_dropped": {LOST},
    }
    run = Run(tmp_path, [FAULTY, ",".join(faults)], ["PRECISION=halffp16", *ONE_MODEL], len(faults))
    for row, test, (fault, expected) in zip(run.rows, run.result["tests"], faults.items(), strict=True):
        failed = {name for name, verdict in row.items() if verdict == "FAILED"}
        perhaps = {DEVIATION, STILL} if fault == "convolutions_not_updated" else {DEVIATION}
        assert expected <= failed <= expected | perhaps, fault
        assert test["raw"]["work"]["skipped_steps"] > 0 or not fault.startswith("overflow")


def altered(sweep: Run, index: int, **fields: Any) -> set[str]:
    """The claims that a test violates with other raw measurements, its samples reduced by the skipped ones."""
    test = subject(sweep, index)
    skipped = fields.get("work__skipped_samples", test.entry.raw.work.skipped_samples)
    places = {f"raw.{name.replace('__', '.')}": plain(value) for name, value in fields.items()}
    places |= {"raw.work.samples": 76 - skipped}
    return set(violated_claims(test, *(changed(*each) for each in places.items())))


def skipping(sweep: Run, index: int, steps: int, samples: int) -> set[str]:
    """The claims that a test violates with the given numbers of skipped steps and samples."""
    return altered(sweep, index, work__skipped_steps=steps, work__skipped_samples=samples)


@pytest.mark.slow
def test_claims_of_a_precision_can_be_violated(sweep: Run) -> None:
    test = subject(sweep, 1)
    probe = test.entry.raw.preparation.probe
    assert altered(sweep, 1) == skipping(sweep, 1, 1, 16) == set()
    wanted = "probe if, and only if, PRECISION is not fp32"
    assert wanted in altered(sweep, 0, preparation__probe=probe)
    assert altered(sweep, 1, preparation__probe=None) == {wanted}
    with pytest.raises(ValidationError, match=r"raw\.preparation\.probe\.seconds"):
        altered(sweep, 1, preparation__probe__seconds=0.0)
    converting = changed("memory.data.converted", True), changed("raw.preparation.probe.converted", False)
    assert set(violated_claims(test, *converting)) == {"probe: converted where the ranks convert"}
    assert skipping(sweep, 1, 1, 17) == {"skipped_samples: those of skipped_steps"}
    assert skipping(sweep, 1, 6, 16) == {"skipped_steps <= steps"}
    assert skipping(sweep, 4, 1, 16) == set()
    assert skipping(sweep, 2, 1, 16) == {"skipped_steps: with a loss scale only"}


@pytest.mark.slow
def test_wrong_elements_are_counted_in_int8_and_nowhere_else(sweep: Run) -> None:
    of_bytes = subject(sweep, 5)
    found = of_bytes.entry.raw.preparation.residuals.wrong
    counted = "wrong elements: counted in int8 only"
    assert altered(sweep, 5) == set()
    assert altered(sweep, 1, preparation__residuals__wrong=found) == {counted}
    assert altered(sweep, 5, preparation__residuals__wrong=None) == {counted}
    one = rebuilt(of_bytes, changed("raw.preparation.residuals.wrong", plain(replace(found, value=1)))).entry
    assert one.verdict == "FAILED"
    assert [check.name for check in one.checks if check.verdict == "FAILED"] == [WRONG.name]


@pytest.mark.slow
def test_letters_of_precisions_and_emulated_ones(sweep: Run) -> None:
    case = subject(sweep, 0).case
    named = [Case(1, case.workload, {**case.settings, "PRECISION": name}) for name in (*PRECISIONS, "tf32")]
    assert [tv(each)[4] for each in named] == [*"SHBPFIT"]
    for fp32, seconds, converted, expected in ((2, 1, False, False), (1, 2, False, True), (2, 1, True, True)):
        probe = PrecisionProbe(fp32_seconds=float(fp32), seconds=float(seconds), converted=converted)
        assert emulated(probe) is expected
    assert not emulated(None)


@pytest.mark.slow
def test_precisions_that_the_device_lacks_are_refused_before_anything_runs(tmp_path: Path) -> None:
    folder = prepared(tmp_path)
    before = listing(folder)
    job = run_job([BENCH, "--set", "PRECISION=fp32,tf32"], 2, folder, START)
    assert (job.returncode, job.stdout, listing(folder)) == (2, "", before)
    assert "test 2 cannot be run: PRECISION tf32 on cpu: torch does not round" in job.stderr
