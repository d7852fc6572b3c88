"""The types of a result: the program's own check of the schema agrees with jsonschema's, and comes first."""

import copy
import random
from pathlib import Path
from typing import Any

import pytest
from alterations import places, put, verified
from hpcai.report.schema.check import violations
from jsonschema import Draft202012Validator
from shares import IN_TURNS, of_turn
from small_run import failing_run, golden, judged, live_run

from hpcai.report import schema

Json = dict[str, Any]
SCHEMA = schema.schema()
VALIDATOR = Draft202012Validator(SCHEMA)
VALUES = (None, True, 0, -1, 10**400, 0.5, -0.5, "", "x", "\ud800", [], [0], {}, {"x": 1}, "2026-13-01T00:00:00+00:00")


def test_real_results_have_their_types() -> None:
    for result in (golden(), live_run().result, failing_run().result):
        assert list(violations(result, SCHEMA)) == []


@IN_TURNS
def test_it_finds_what_jsonschema_finds(turn: int) -> None:
    draw = random.Random(turn)
    result = golden()
    del result["tests"][1]
    found = set()
    for path in of_turn(places(result), turn):
        for value in draw.sample(VALUES, 2):
            other = put(copy.deepcopy(result), path, value)
            legal = VALIDATOR.is_valid(other)
            assert (list(violations(other, SCHEMA)) == []) == legal, (path, value)
            found.add(legal)
    assert found == {True, False}


@pytest.mark.parametrize(
    ("part", "legal", "illegal"),
    [
        ({"type": "integer", "minimum": 1}, (1, 10**400), (0, -1, True, "1", None, 1.5)),
        ({"type": "number"}, (0, -0.5), (False, "0", [])),
        ({"type": "string", "pattern": "^[0-9]+$"}, ("1", "123"), ("", "x", "1x", 1)),
        ({"enum": ["a", "b"]}, ("a", "b"), ("c", 1, None)),
        ({"const": "a"}, ("a",), ("b", ["a"])),
        ({"type": "array", "items": {"type": "null"}, "maxItems": 2}, ([], [None]), ([None] * 3, [1], {})),
        ({"type": "array", "minItems": 1}, ([0],), ([], {})),
        ({"anyOf": [{"type": "null"}, {"type": "array", "maxItems": 0}]}, (None, []), ([1], 0)),
        ({"type": "object", "additionalProperties": {"type": "boolean"}}, ({}, {"a": True}), ({"a": 1}, [])),
        (
            {"type": "object", "properties": {"a": {"type": "null"}}, "required": ["a"], "additionalProperties": False},
            ({"a": None},),
            ({}, {"a": 1}, {"a": None, "b": None}),
        ),
    ],
)  # fmt: skip
def test_each_word_of_the_language(part: Json, legal: tuple[Any, ...], illegal: tuple[Any, ...]) -> None:
    validator = Draft202012Validator(part)
    for value in legal:
        assert list(violations(value, part)) == [] and validator.is_valid(value), value
    for value in illegal:
        assert list(violations(value, part)) and not validator.is_valid(value), value


def test_it_is_stricter_than_the_standard() -> None:
    """Python's `$` lets a line end follow, and the standard takes 4.0 for an integer."""
    for value, part in ((4.0, {"type": "integer"}), ("1\n", {"pattern": "^1$"}), (1, {"enum": [True]})):
        assert list(violations(value, part))


def test_a_word_that_it_does_not_know_is_an_error() -> None:
    with pytest.raises(ValueError, match="minLength"):
        list(violations("x", {"minLength": 2}))


@pytest.mark.parametrize(
    ("place", "value", "fault"),
    [
        (("tests", 0, "raw", "correct"), 465.5, "tests[0].raw.correct: not of type integer"),
        (("tests", 0, "raw", "warmup_steps"), 4.5, "tests[0].raw.warmup_steps: not of type integer"),
        (("tests", 0, "raw", "warmup_steps"), 4.0, "tests[0].raw.warmup_steps: not of type integer"),
        (("environment", "nodes"), 0, "environment.nodes: less than 1"),
        (("tests", 0, "raw", "dataset", "fingerprint"), "", "tests[0].raw.dataset.fingerprint: not of the form"),
        (("tests", 0, "raw", "dataset", "name"), "", "tests[0].raw.dataset.name: not of the form"),
        (("date",), "2026-11-21T15:58:28+00:00x", "date: not of the form"),
        (("date",), "2026-11-21T15:58:28+00:00\n", "date: not of the form"),
        (("version",), "", "version: not of the form"),
        (("tests", 0, "raw", "x" * 1000), 1, f"tests[0].raw.{'x' * 37}...: is unknown"),
    ],
)
def test_wrong_types_are_caught_though_all_else_is_new(
    place: tuple[Any, ...], value: Any, fault: str, tmp_path: Path
) -> None:
    (found,) = verified(judged(put(golden(), place, value)), tmp_path)
    assert found.startswith(fault)
