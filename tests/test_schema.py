"""Stored and real results follow the schema, altered ones do not, and every field is part of it."""

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from sampled_parameters import IN_PARTS, of_part
from small_run import REAL_RUNS, Run, failing_run, golden, rebuilt

from hpcai.record import schema

Json = dict[str, Any]
Path = tuple[str | int, ...]
VALIDATOR = Draft202012Validator(schema.schema())
WATTS = (("ENERGY", "value"), ("settings", "ENERGY"))  # where a word may be a number
NULL = (("energy", "reason"), ("replay", "weights"))
OPEN = ("packages", "trials")  # objects whose fields have names of their own


def is_allowed(path: Path, field: str, wrong: Any) -> bool:
    """Whether a value may be something else: watts of ENERGY, no reason of known energy, contents that are unknown.

    Digests of weights are null in older results.
    """
    last = (*path[-1:], field)
    known = path[-2:] == ("delivered", "data") and field != "shared_allowed"
    return (last in WATTS and wrong == 1) or ((last in NULL or known) and wrong is None)


def objects(value: Any, path: Path = ()) -> Iterator[tuple[Path, Json]]:
    """Every object within a JSON value, with its path."""
    if isinstance(value, dict):
        yield path, value
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from objects(part, (*path, key))


def altered(result: Json, path: Path) -> tuple[Json, Json]:
    """A copy of a result, and the object at a path within it."""
    other = found = copy.deepcopy(result)
    for key in path:
        found = found[key]
    return other, found


def test_the_schema_is_valid() -> None:
    Draft202012Validator.check_schema(schema.schema())
    assert json.loads(schema.text()) == schema.schema()


def test_the_stored_result_follows_the_schema() -> None:
    VALIDATOR.validate(golden())


@pytest.mark.parametrize("ended", [0, 1])
def test_a_broken_off_result_follows_the_schema(ended: int) -> None:
    partial = golden()
    del partial["tests"][ended:]
    VALIDATOR.validate(rebuilt(partial))


@REAL_RUNS
def test_real_results_follow_the_schema(run: Callable[[], Run]) -> None:
    VALIDATOR.validate(run().result)


@pytest.mark.slow
def test_the_loss_of_a_diverged_test_is_null() -> None:
    assert failing_run().result["tests"][0]["raw"]["curve"][-1]["loss"] is None


@pytest.mark.slow
@IN_PARTS
def test_every_field_is_required_and_no_other_is_allowed(part: int) -> None:
    result = golden()
    del result["tests"][1]
    for path, fields in of_part(objects(result), part):
        other, found = altered(result, path)
        found["unheard of"] = 1
        assert (path and path[-1] in OPEN) or not VALIDATOR.is_valid(other), path
        for field in fields:
            other, found = altered(result, path)
            del found[field]
            assert VALIDATOR.is_valid(other) == bool(path and path[-1] in OPEN), (path, field)


@pytest.mark.slow
@IN_PARTS
def test_every_field_has_its_type(part: int) -> None:
    result, number = golden(), ("1", True)
    wrong = {int: number, float: number, str: (1, None), bool: (1, None), list: ({}, 1), dict: ([], 1)}
    del result["tests"][1]
    for path, fields in of_part(objects(result), part):
        for field, value in fields.items():
            for other_value in wrong.get(type(value), (True, {})):  # null replaces a missing number
                other, found = altered(result, path)
                found[field] = other_value
                assert VALIDATOR.is_valid(other) == is_allowed(path, field, other_value), (path, field, other_value)


@pytest.mark.slow
def test_counts_are_whole_and_not_negative() -> None:
    result = golden()
    counts = [
        (path, field)
        for path, fields in objects(result["tests"][0]["raw"], ("tests", 0, "raw"))
        for field, value in fields.items()
        if type(value) is int
    ]
    assert len(counts) > 20
    for path, field in counts:
        for wrong in (-1, 0.5):
            other, found = altered(result, path)
            found[field] = wrong
            assert not VALIDATOR.is_valid(other), (path, field)
