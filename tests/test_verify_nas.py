"""Verification of a search: what follows from its trials passes, anything altered does not, and nothing is a crash."""

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from alterations import Where, found_in, holder, leaves, places, put, verified
from hpcai.report.schema.check import violations
from jsonschema import Draft202012Validator
from shares import IN_TURNS, of_turn
from small_run import judged, renewed
from synthetic_search import searched, with_ensemble

from hpcai.errors import HpcaiError
from hpcai.report import files, schema, verify

Json = dict[str, Any]

VALIDATOR = Draft202012Validator(schema.schema())
NONSENSE = (None, [], {}, "x", "1", -1, 0, 10**400, 1e308, True, [[]], "\ud800", [0] * 3)

# What may be altered, to some extent, by one who makes all else anew: no other number says it.
UNPROVEN = {
    "residuals.scaled.value", "residuals.elementwise.value", "audit.steps", "audit.deviation.value", "audit.lost.value",
    "duplicates", "retired_groups", "largest_deviation", "trials.deviation", "trials.nbytes",
    "trials.planned_bytes", "trials.given", "trials.started", "trials.returned", "trials.curve.seconds",
    "trials.curve.loss", "trials.curve.validation_loss", "trials.curve.correct", "coordinator.requests",
    "coordinator.busy_seconds", "coordinator.wait_mean", "coordinator.wait_max", "proposals.count",
    "proposals.seconds_mean", "proposals.seconds_max", "memory.peak_bytes", "memory.baseline_bytes",
    "memory.planned_bytes", "memory.data_bytes", "memory.picture_bytes", "phases.start-up", "phases.set-up",
    "phases.residuals", "proposals.rejected", "phases.search", "trials.parent", "trials.steps",
}  # fmt: skip


@pytest.mark.parametrize("made", [searched, with_ensemble])
def test_it_is_verified_and_has_the_types_of_the_schema(made: Any, tmp_path: Path) -> None:
    assert verified(made(), tmp_path) == []
    VALIDATOR.validate(made())


def test_files_beside_it_are_compared(tmp_path: Path) -> None:
    files.write(tmp_path, searched())
    names = ["report.txt", "result.csv", "result.json", "series.h5", "trials.csv"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert verify.differences(tmp_path / "result.json") == []
    assert "trials.csv" in verify.sound_message(tmp_path / "result.json")
    text = (tmp_path / "trials.csv").read_text("utf-8")
    (tmp_path / "trials.csv").write_text(text.replace("widen", "wider", 1), "utf-8")
    assert verify.differences(tmp_path / "result.json") == ["trials.csv, line 3: not what the result file says"]


def derived() -> Iterator[tuple[Where, Any]]:
    """What is made from the raw measurements."""
    for path, value in leaves(searched()):
        if path[0] in ("tests", "summary") and "raw" not in path:
            yield path, value


def test_what_is_derived_cannot_be_altered(tmp_path: Path) -> None:
    for path, value in random.Random(1).sample([*derived()], 150):
        for other in ("x", value + 1 if isinstance(value, int | float) and not isinstance(value, bool) else 0):
            result = put(searched(), path, other)
            assert verified(renewed(result), tmp_path), (path, other)


def raw_numbers() -> Iterator[tuple[Where, Any, str]]:
    for path, value in leaves(searched()["tests"][0]["raw"], ("tests", 0, "raw")):
        name = ".".join(key for key in path[3:] if isinstance(key, str))
        if type(value) in (int, float) and name not in UNPROVEN:
            yield path, value, name


@IN_TURNS
def test_most_raw_numbers_cannot_be_altered_alone(tmp_path: Path, turn: int) -> None:
    """Though all that follows from them is made anew."""
    for path, value, name in of_turn(raw_numbers(), turn):
        for other in (value + 1, value * 2 + 1):
            try:
                result = judged(put(searched(), path, other))
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
        (("trials", 2, "morphisms", 0), {"operation": "shrink"}, "none of"),
        (("trials", 2, "morphisms", 0, "kernel"), 4, "none of 3, 5, 7"),
        (("trials", 2, "morphisms"), [{}] * 10_001, "more than 10000 entries"),
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


def test_nonsense_in_any_place_is_caught(tmp_path: Path) -> None:
    every = [*places(searched())]
    for index, path in enumerate(random.Random(2).sample(every, 300)):
        result = put(searched(), path, NONSENSE[index % len(NONSENSE)])
        (tmp_path / "result.json").write_text(json.dumps(result), "utf-8")
        assert result == searched() or found_in(tmp_path / "result.json"), path


def test_the_schema_finds_what_jsonschema_finds() -> None:
    draw, found = random.Random(3), set()
    for path in draw.sample([*places(searched()["tests"][0], ("tests", 0))], 200):
        other = put(searched(), path, draw.choice([value for value in NONSENSE if value != 1e308]))
        legal = VALIDATOR.is_valid(other)
        assert (list(violations(other, schema.schema())) == []) == legal, path
        found.add(legal)
    assert found == {True, False}


@IN_TURNS
def test_every_field_is_needed_and_no_other_is_allowed(turn: int) -> None:
    result = searched()
    optional = {"data_bytes", "samples", "picture_bytes", "converted"}
    every = [*places(result["tests"][0], ("tests", 0)), *places(result["summary"]["best"], ("summary", "best"))]
    for path in of_turn(every, turn):
        if "phases" in path or not isinstance(path[-1], str) or (path[-2] == "memory" and path[-1] in optional):
            continue
        other = copy.deepcopy(result)
        del holder(other, path)[path[-1]]
        assert list(violations(other, schema.schema())), path
        other = copy.deepcopy(result)
        holder(other, path)["unheard of"] = 1
        assert list(violations(other, schema.schema())), path
