"""Telemetry of real runs is verified, told in the report, and found out where a number of it is altered."""

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
from small_run import Run, bench, cases_of, judged

from hpcai.errors import HpcaiError
from hpcai.machine.node_sensors import NAMES
from hpcai.report import consistency, schema, verify
from hpcai.report.text import counted

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
TABLE, TEST = (("tables", 0, "raw"), ("tests", 0, "raw"))


@cache
def sampled(*changes: str) -> Run:
    """A table and a test on two ranks."""
    path = Path(_FOLDER.name) / "input.dat"
    path.write_text(INPUT, "utf-8")
    return bench([str(path), *(word for change in changes for word in ("--set", change))], 2)


def altered(path: Where, value: Any) -> Json:
    """The result with another value, and all that follows from it made anew."""
    return judged(put(copy.deepcopy(sampled().result), path, value))


def test_every_workload_is_sampled() -> None:
    result = sampled().result
    assert sampled().job.returncode == 0
    assert verify.differences(sampled().folder / "result.json") == []
    Draft202012Validator(schema.schema()).validate(result)
    for path in (TABLE, TEST):
        seen = holder(result, (*path, "telemetry"))["telemetry"]
        assert seen["nodes"] == 1 and 0 < seen["samples"] == len(seen["series"])
        assert 0 < seen["average"]["processors"] <= seen["maximum"]["processors"] <= 1
        assert 0 < seen["average"]["memory_bytes"] <= result["environment"]["memory_bytes"]
    training = holder(result, (*TEST, "phases"))["phases"]["training"]
    assert holder(result, (*TEST, "telemetry"))["telemetry"]["series"][-1][0] + 0.25 >= training


def test_the_report_tells_of_both() -> None:
    result, told = sampled().result, sampled().job.stdout
    lines = [line for line in told.splitlines() if line.startswith("Telemetry: ")]
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
    assert "utilisation of the processors, average= " in told


@pytest.mark.slow
def test_telemetry_0_samples_nothing() -> None:
    run = sampled("TELEMETRY=0")
    assert run.job.returncode == 0 and verify.differences(run.folder / "result.json") == []
    assert "telemetry" not in run.result["tests"][0]["raw"] and "telemetry" not in run.result["tables"][0]["raw"]
    assert run.job.stdout.count("Telemetry: n/a, not sampled\n") == 2
    assert "utilisation of the processors, average= n/a, not sampled\n" in run.job.stdout
    forged = copy.deepcopy(run.result)
    forged["tests"][0]["raw"]["telemetry"] = sampled().result["tests"][0]["raw"]["telemetry"]
    case = cases_of(forged)[1]
    assert "telemetry: only where TELEMETRY > 0" in consistency.contradictions(case, forged["tests"][0]["raw"])


@pytest.mark.parametrize("where", [TABLE, TEST], ids=["table", "test"])
def test_no_number_can_be_altered_alone(where: Where, tmp_path: Path) -> None:
    """Nor can a number become n/a, or n/a a number."""
    seen = holder(sampled().result, (*where, "telemetry"))["telemetry"]
    inner = range(1, len(seen["series"]) - 1)  # of the samples the first and the last
    numbers = [(path, value) for path, value in leaves(seen, (*where, "telemetry")) if path[-2] not in inner]
    for path, value in numbers:
        for other in (0.5, -1) if value is None else (value * 2 + 0.1, -1, None):
            try:
                found = verified(altered(path, other), tmp_path)
            except (HpcaiError, ArithmeticError, ValueError, TypeError):
                continue
            assert found, f"{path}: {value} -> {other}"


def of_many_samples(seen: Json) -> None:
    """As if neighbours had been joined, but too few of them are left."""
    seen["samples"] += 300


@pytest.mark.parametrize(
    ("claim", "forge"),
    [
        ("0 <= averages <= maxima", lambda seen: seen["average"].update(processors=1.01)),
        ("0 <= averages <= maxima", lambda seen: seen["average"].update(processors=None)),
        ("energy >= 0", lambda seen: seen.update(gpu_joules=-1.0)),
        ("energy >= 0", lambda seen: seen.update(gpu_joules=9.0, gpu_watts=1.0)),
        ("shares <= 1", lambda seen: seen["maximum"].update(processors=1.01)),
        ("time goes on in the series", lambda seen: seen["series"].append(seen["series"][-1])),
        ("samples, of the series", of_many_samples),
        ("the interval, of the series", lambda seen: seen.update(interval=seen["interval"] + 0.01)),
        ("the series within the maxima", lambda seen: seen["series"][0].__setitem__(1, 1.01)),
        ("one node: averages of its series", lambda seen: seen["average"].update(memory_bytes=1.0)),
        ("one node: maxima of its series", lambda seen: seen["maximum"].update(memory_bytes=2**60)),
        ("nodes of the job", lambda seen: seen.update(nodes=2)),
        ("memory that a node has", lambda seen: seen["maximum"].update(memory_bytes=2**60)),
        ("of GPUs only where there are some", lambda seen: seen.update(gpu_joules=5.0)),
        ("of GPUs only where there are some", lambda seen: seen["maximum"].update(gpus=0.5)),
    ],
)  # fmt: skip
def test_each_claim_can_be_broken(claim: str, forge: Forgery) -> None:
    if "GPUs" in claim and sampled().result["environment"]["accelerators"]:
        pytest.skip("THERE IS A GPU")
    result = copy.deepcopy(sampled().result)
    forge(result["tests"][0]["raw"]["telemetry"])
    cases = cases_of(result)
    found = [*consistency.machine(result, cases), *consistency.contradictions(cases[1], result["tests"][0]["raw"])]
    assert any(f"telemetry: {claim}" in one for one in found)


def test_samples_of_a_shorter_test_are_found_out() -> None:
    result = copy.deepcopy(sampled().result)
    raw = result["tests"][0]["raw"]
    raw["phases"]["training"] = raw["telemetry"]["series"][-1][0] + 0.3
    found = consistency.contradictions(cases_of(result)[1], raw)
    assert "telemetry: the series spans what is timed" in found


def test_a_long_series_of_which_neighbours_were_joined_is_sound() -> None:
    from hpcai.machine.telemetry import Series, means

    series, result = Series(), copy.deepcopy(sampled().result)
    for second in range(1, 2000):
        series.add(second, ((second % 7) / 7, 1000 + second, None, None))
    seen = result["tests"][0]["raw"]["telemetry"]
    rows = json.loads(json.dumps(series.rows()))
    seen |= {"samples": series.count, "interval": series.interval, "series": rows}
    seen["average"], seen["maximum"] = (dict(zip(NAMES, of, strict=True)) for of in (means(rows), series.maximum))
    assert list(consistency.contradictions(cases_of(result)[1], result["tests"][0]["raw"])) == []
    assert list(consistency.machine(result, cases_of(result))) == []
    Draft202012Validator(schema.schema()).validate(result)
