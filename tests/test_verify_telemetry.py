"""Telemetry of real runs is verified, reported, and detected when a number of it is altered."""

import copy
import json
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from alterations import Where, holder, leaves, put, verified
from jsonschema import Draft202012Validator
from sample_records import UNKNOWN
from small_run import Run, bench, rebuilt

from hpcai.claims.telemetry_claims import ROW_TELEMETRY
from hpcai.errors import HpcaiError
from hpcai.machine.node_sensors import NAMES
from hpcai.record.loading import entry_of, result_of
from hpcai.record.schema import schema
from hpcai.report.text import counted
from hpcai.results.claim import Subject
from hpcai.verification import verify

Json = dict[str, Any]
Forgery = Callable[[Json], object]

INPUT = """Telemetry
of a table and a test
[kernels]
24 SHAPES
[ensemble]
fashion DATASET
64 SAMPLES
1 GROUPS
2 DEGREE
8 BATCH
2 EPOCHS
0.05 TARGET
"""
_FOLDER = tempfile.TemporaryDirectory()
TABLE, TEST = (("tables", 0), ("tests", 0))


@cache
def sampled(*changes: str) -> Run:
    """A table and a test on two ranks."""
    path = Path(_FOLDER.name) / "input.dat"
    path.write_text(INPUT, "utf-8")
    return bench([str(path), *(word for change in changes for word in ("--set", change))], 2)


def altered(path: Where, value: Any) -> Json:
    """The result with another value, and all derived values computed again."""
    return rebuilt(put(copy.deepcopy(sampled().result), path, value))


def broken(result: Json) -> list[str]:
    """The claims about telemetry that the first test of a result violates."""
    found = result_of({**result, "tests": []})
    entry, case = entry_of(result["tests"][0]), verify.cases_of(found)[1]
    return [claim.text for claim in ROW_TELEMETRY if not claim.holds(Subject(case, entry, found.environment))]


@pytest.mark.slow
def test_every_workload_is_sampled() -> None:
    result = sampled().result
    assert sampled().job.returncode == 0
    assert verify.differences(sampled().folder / "result.json") == []
    Draft202012Validator(schema()).validate(result)
    for path in (TABLE, TEST):
        seen = holder(result, (*path, "telemetry"))["telemetry"]
        assert seen["nodes"] == 1 and 0 < seen["samples"] == len(seen["series"])
        assert 0 < seen["average"]["processors"] <= seen["maximum"]["processors"] <= 1
        assert 0 < seen["average"]["memory_bytes"] <= result["environment"]["memory_bytes"]
    training = holder(result, (*TEST, "raw", "phases", "training"))["training"]
    assert holder(result, (*TEST, "telemetry"))["telemetry"]["series"][-1][0] + 0.25 >= training


@pytest.mark.slow
def test_a_real_training_moves_at_least_the_computed_bytes_within_the_node() -> None:
    """By gloo on two ranks; headers, barriers and other processes come on top."""
    test = sampled().result["tests"][0]
    seen, sent = test["telemetry"], test["raw"]["sent"]
    moved = seen["average"]["sent_within"] * seen["series"][-1][0]
    computed = sum(sent["bytes"].values()) * test["raw"]["work"]["steps"] * test["q"]
    assert moved >= computed > 0
    assert f"loopback {moved / 1e9:.6f};" in sampled().job.stdout
    assert f"; computed for gradients, sent {computed / 1e9:.6f}\n" in sampled().job.stdout


@pytest.mark.slow
def test_the_report_has_the_telemetry_of_both() -> None:
    result, printed = sampled().result, sampled().job.stdout
    lines = [line for line in printed.splitlines() if line.startswith("Telemetry: ")]
    assert len(lines) == 2
    for line, path in zip(lines, (TABLE, TEST), strict=True):
        seen = holder(result, (*path, "telemetry"))["telemetry"]
        average, most = seen["average"], seen["maximum"]
        assert f"processors {average['processors']:.3f} on average, {most['processors']:.3f} at most" in line
        assert f"memory of a node {average['memory_bytes'] / 2**20:.1f} MiB on average" in line
        assert (
            f"{counted(seen['samples'], 'sample')}, at most {seen['interval']:.2f} s apart, of each of 1 node" in line
        )
        if not result["environment"]["accelerators"]:
            assert "GPUs n/a; memory of a GPU n/a;" in line
    assert "utilisation of the processors, average= " in printed


@pytest.mark.exhaustive
def test_telemetry_0_samples_nothing() -> None:
    run = sampled("TELEMETRY=0")
    assert run.job.returncode == 0 and verify.differences(run.folder / "result.json") == []
    assert run.result["tests"][0]["telemetry"] is run.result["tables"][0]["telemetry"] is None
    assert run.job.stdout.count("Telemetry: n/a, not sampled\n") == 2
    assert "utilisation of the processors, average= n/a, not sampled\n" in run.job.stdout
    forged = copy.deepcopy(run.result)
    forged["tests"][0]["telemetry"] = sampled().result["tests"][0]["telemetry"]
    assert "telemetry: only where TELEMETRY > 0" in broken(forged)


@pytest.mark.slow
@pytest.mark.parametrize("where", [TABLE, TEST], ids=["table", "test"])
def test_no_number_can_be_altered_alone(where: Where, tmp_path: Path) -> None:
    """Nor can a number become n/a, or n/a a number."""
    seen = holder(sampled().result, (*where, "telemetry"))["telemetry"]
    inner = range(1, len(seen["series"]) - 1)  # the first and the last of the samples
    numbers = [(path, value) for path, value in leaves(seen, (*where, "telemetry")) if path[-2] not in inner]
    for path, value in numbers:
        for other in (0.5, -1) if value is None else (value * 2 + 0.1, -1, None):
            try:
                made = altered(path, other)
            except (HpcaiError, ArithmeticError, ValueError, TypeError):
                continue
            assert made["summary"]["failed"] or verified(made, tmp_path), f"{path}: {value} -> {other}"


def of_many_samples(seen: Json) -> None:
    """As if neighbours had been merged, but too few of them are left."""
    seen["samples"] += 300


def refused(result: Json) -> bool:
    """Whether a result is refused, by the types of its records or by a claim."""
    try:
        return bool(broken(result))
    except HpcaiError:
        return True


@pytest.mark.slow
@pytest.mark.parametrize(
    "forge",
    [
        lambda seen: seen["average"].update(processors=1.01),
        lambda seen: seen["average"].update(processors=None),
        lambda seen: seen["maximum"].update(processors=None),
        lambda seen: seen["maximum"].update(processors=1.01),
        lambda seen: seen["series"].append(seen["series"][-1]),
        of_many_samples,
        lambda seen: seen.update(interval=seen["interval"] + 0.01),
        lambda seen: seen["series"][0].__setitem__(1, 1.01),
        lambda seen: seen["average"].update(memory_bytes=1.0),
        lambda seen: seen["maximum"].update(memory_bytes=2**60),
        lambda seen: seen.update(nodes=2),
        lambda seen: seen["maximum"].update(gpus=0.5),
    ],
)
def test_impossible_telemetry_is_refused(forge: Forgery) -> None:
    result = copy.deepcopy(sampled().result)
    assert not refused(result)
    forge(result["tests"][0]["telemetry"])
    assert refused(result)


@pytest.mark.slow
def test_a_long_series_with_merged_neighbours_is_sound() -> None:
    from hpcai.machine.telemetry import Series, means

    series, result = Series(), copy.deepcopy(sampled().result)
    for second in range(1, 2000):
        series.add(second, ((second % 7) / 7, 1000 + second, *UNKNOWN))
    seen = result["tests"][0]["telemetry"]
    rows = json.loads(json.dumps(series.rows()))
    seen |= {"samples": series.count, "interval": series.interval, "series": rows}
    seen["average"], seen["maximum"] = (dict(zip(NAMES, of, strict=True)) for of in (means(rows), series.maximum))
    assert broken(result) == []
    Draft202012Validator(schema()).validate(result)


@pytest.mark.slow
def test_samples_of_a_shorter_test_are_detected() -> None:
    result = copy.deepcopy(sampled().result)
    test = result["tests"][0]
    test["seconds"] = test["telemetry"]["series"][-1][0] + 0.3
    assert "telemetry: the series spans what is timed" in broken(result)
