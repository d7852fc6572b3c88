"""Verification of a search: sound ones pass, altered ones do not, and nothing causes a crash."""

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from alterations import Where, found_in, holder, leaves, places, put, verified
from jsonschema import Draft202012Validator
from sampled_parameters import IN_PARTS, of_part
from small_run import rebuilt, renewed
from synthetic_search import searched, with_ensemble
from written_files import write_unlisted

from hpcai.errors import HpcaiError, InputError
from hpcai.record.loading import result_of
from hpcai.record.older import LACKING
from hpcai.record.schema import schema
from hpcai.verification import verify

Json = dict[str, Any]

VALIDATOR = Draft202012Validator(schema())
SEARCH = Draft202012Validator({"$ref": "#/$defs/SearchRow", "$defs": schema()["$defs"]})
UNHOLDABLE = (10**400, "\ud800")  # allowed by JSON, but beyond a double or invalid UTF-8
NONSENSE = (None, [], {}, "x", "1", -1, 0, 1e308, True, [[]], [0] * 3, *UNHOLDABLE)

# Numbers that can be altered to some extent if all else is computed again: no other number depends on them.
UNPROVEN = {
    "raw.residuals.scaled.value", "raw.residuals.elementwise.value", "raw.replay.steps", "raw.replay.deviation.value",
    "raw.replay.lost.value", "raw.replay.outside_share",
    "raw.duplicates", "raw.trials.nbytes", "raw.trials.planned_bytes", "raw.trials.given",
    "raw.trials.started", "raw.trials.returned", "raw.trials.curve.seconds", "raw.trials.curve.loss",
    "raw.trials.curve.validation_loss", "raw.trials.curve.correct", "raw.coordinator.requests",
    "raw.coordinator.busy_seconds", "raw.coordinator.wait_mean", "raw.coordinator.wait_max", "raw.proposals.count",
    "raw.proposals.seconds_mean", "raw.proposals.seconds_max", "raw.proposals.rejected", "raw.phases.start_up",
    "raw.phases.set_up", "raw.phases.residuals", "raw.phases.search", "memory.peak_bytes", "memory.baseline_bytes",
    "memory.planned_bytes", "memory.data.data_bytes", "memory.data.image_bytes", "raw.loading.load_seconds",
    "raw.loading.wait_seconds",
}  # fmt: skip

OPTIONAL = LACKING["hpcai-result/3"] | {  # fields that the loader allows to be missing, but verification does not
    "data", "ceiling", "ceiling_error", "wrong", "start_up", "staging", "probe", "vendor_comparison", "site_kernels",
}  # fmt: skip


@pytest.mark.parametrize("made", [searched, with_ensemble])
def test_a_search_is_verified_and_has_the_types_of_the_schema(made: Any, tmp_path: Path) -> None:
    assert verified(made(), tmp_path) == []
    VALIDATOR.validate(made())


def test_files_of_the_run_are_compared(tmp_path: Path) -> None:
    write_unlisted(tmp_path, result_of(searched()))
    names = ["report.txt", "result.csv", "result.json", "series.h5", "trials.csv"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert verify.differences(tmp_path / "result.json") == []
    assert "trials.csv" in verify.sound_message(tmp_path / "result.json")
    text = (tmp_path / "trials.csv").read_text("utf-8")
    (tmp_path / "trials.csv").write_text(text.replace("widen", "wider", 1), "utf-8")
    assert verify.differences(tmp_path / "result.json") == ["trials.csv, line 3: not what the result file says"]


def derived() -> Iterator[tuple[Where, Any]]:
    """Values derived from the raw measurements."""
    for path, value in leaves(searched()):
        if path[0] in ("tests", "summary") and not {"raw", "memory"} & {*path}:
            yield path, value


@IN_PARTS
def test_derived_values_cannot_be_altered(tmp_path: Path, part: int) -> None:
    for path, value in of_part(random.Random(1).sample([*derived()], 150), part):
        for other in ("x", value + 1 if isinstance(value, int | float) and not isinstance(value, bool) else 0):
            result = put(searched(), path, other)
            assert verified(renewed(result), tmp_path), (path, other)


def measured_numbers() -> Iterator[tuple[Where, Any, str]]:
    for part in ("raw", "memory"):
        for path, value in leaves(searched()["tests"][0][part], ("tests", 0, part)):
            name = ".".join(key for key in path[2:] if isinstance(key, str))
            if type(value) in (int, float) and name not in UNPROVEN:
                yield path, value, name


@IN_PARTS
def test_most_measured_numbers_cannot_be_altered_alone(tmp_path: Path, part: int) -> None:
    """Even if all values that follow from them are computed again."""
    for path, value, name in of_part(measured_numbers(), part):
        for other in (value + 1, value * 2 + 1):
            try:
                result = rebuilt(put(searched(), path, other))
            except (HpcaiError, ArithmeticError, ValueError, TypeError, LookupError):
                continue
            passed = result["summary"]["failed"] == 0
            assert not passed or verified(result, tmp_path), f"{name} {path}: {value} -> {other}"


@pytest.mark.parametrize(
    ("place", "value", "fault"),
    [
        (("trials", 1, "morphisms", 0, "layer"), "nowhere", "'nowhere' cannot be widened to 24 channels"),
        (("trials", 1, "morphisms", 0, "channels"), 10**30, ""),
        (("trials", 1, "morphisms", 0, "channels"), 8, "cannot be widened to 8 channels"),
        (("trials", 2, "morphisms", 0, "after"), "softmax", "may be negative, is no map, or does not exist"),
        (("trials", 2, "parent"), 99, "descends from trial 99, which does not exist"),
        (("trials", 2, "parent"), 3, "which descends from itself"),
        (("trials", 2, "morphisms", 0), {"operation": "shrink"}, "tests[0].raw.trials[2].morphisms[0]"),
        (("trials", 2, "morphisms", 0, "kernel"), 4, "tests[0].raw.trials[2].morphisms[0].kernel"),
        (("trials", 2, "morphisms"), [{}] * 10_001, "`array` of length <= 10000"),
        (("trials", 0, "id"), 2, ""),
        (("trials",), [], ""),
        (("seconds",), 0.0, ""),
        (("seconds",), 1e308, ""),
        (("dataset", "shape"), [1, 10**9, 10**9], ""),
        (("dataset", "shape"), [1, 1, 1], ""),
    ],
)
def test_hostile_trials_are_refused_in_lines(place: Where, value: Any, fault: str, tmp_path: Path) -> None:
    result = put(searched(), ("tests", 0, "raw", *place), value)
    found = verified(renewed(result), tmp_path)
    assert found and all(len(line) < 400 and "\n" not in line for line in found)
    assert any(fault in line for line in found), found[:3]


@pytest.mark.slow
def test_nonsense_in_any_place_is_detected(tmp_path: Path) -> None:
    every = [*places(searched())]
    for index, path in enumerate(random.Random(2).sample(every, 300)):
        result = put(searched(), path, NONSENSE[index % len(NONSENSE)])
        (tmp_path / "result.json").write_text(json.dumps(result), "utf-8")
        assert result == searched() or found_in(tmp_path / "result.json"), path


def refused(result: Json) -> bool:
    """Whether the loader refuses a result."""
    try:
        result_of(result)
    except InputError:
        return True
    return False


@pytest.mark.slow
def test_the_loader_refuses_all_that_the_schema_refuses() -> None:
    draw, found = random.Random(3), set()
    for path in draw.sample([*places(searched()["tests"][0], ("tests", 0))], 200):
        value = draw.choice([value for value in NONSENSE if value != 1e308])
        other = put(searched(), path, value)
        legal = SEARCH.is_valid(other["tests"][0])
        assert refused(other) or legal, (path, value)
        assert not refused(other) or not legal or value in UNHOLDABLE, (path, value)
        found.add(legal)
    assert found == {True, False}


@IN_PARTS
def test_every_field_is_required_and_no_other_is_allowed(tmp_path: Path, part: int) -> None:
    result = searched()
    every = [*places(result["tests"][0], ("tests", 0)), *places(result["summary"]["best"], ("summary", "best"))]
    for path in of_part(every, part):
        if not isinstance(path[-1], str):
            continue
        other = copy.deepcopy(result)
        del holder(other, path)[path[-1]]
        optional = path[-2] == "ends" or (path[-1] in OPTIONAL and path[-2] != "figures")
        assert refused(other) != optional, path
        assert refused(other) or verified(renewed(other), tmp_path), path
        other = copy.deepcopy(result)
        holder(other, path)["unheard of"] = 1
        assert refused(other), path
