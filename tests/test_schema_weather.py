"""The schema of weather: stored and real results follow it, altered ones do not, and every field is part of it."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator
from result_with_weather import mixed
from sampled_parameters import IN_PARTS, of_part
from small_run import golden_weather, weather_run
from test_schema import OPEN, VALIDATOR, altered, is_allowed, objects

from hpcai.record.older import LACKING
from hpcai.record.schema import schema

Json = dict[str, Any]
TESTS = schema()["$defs"]["Result"]["properties"]["tests"]["items"]
OF_TEST = Draft202012Validator({**TESTS, "$defs": schema()["$defs"]})
WRONG = {int: ("1", True, None), float: ("1", True), str: (1, None), bool: (1, None), list: ({}, 1), dict: ([], 1)}


def stored() -> Json:
    """The first test, without the samples of telemetry, which are many and equal."""
    test: Json = golden_weather()["tests"][0]
    test["telemetry"] = None
    return test


def test_stored_and_mixed_results_follow_the_schema() -> None:
    VALIDATOR.validate(golden_weather())
    VALIDATOR.validate(mixed())
    VALIDATOR.validate(mixed(ensembles=False))


@pytest.mark.exhaustive
def test_a_real_result_with_a_diverged_model_follows_the_schema() -> None:
    VALIDATOR.validate(weather_run().result)
    assert weather_run().result["tests"][0]["raw"]["curve"][-1]["loss"] is None


@pytest.mark.exhaustive
def test_every_field_is_required_and_no_other_is_allowed() -> None:
    assert OF_TEST.is_valid(stored())
    for path, fields in objects(stored()):
        other, found = altered(stored(), path)
        found["unheard of"] = 1
        assert (path and path[-1] in OPEN) or not OF_TEST.is_valid(other), path
        for field in fields:
            other, found = altered(stored(), path)
            del found[field]
            assert OF_TEST.is_valid(other) == bool(path and path[-1] in OPEN), (path, field)


@pytest.mark.exhaustive
@IN_PARTS
def test_every_field_has_its_type(part: int) -> None:
    for path, fields in of_part(objects(stored()), part):
        for field, value in fields.items():
            for wrong in WRONG.get(type(value), (True, {})):
                if wrong is None and field in LACKING["hpcai-result/3"]:
                    continue  # null in older results
                other, found = altered(stored(), path)
                found[field] = wrong
                assert OF_TEST.is_valid(other) == is_allowed(path, field, wrong), (path, field, wrong)


@pytest.mark.parametrize("workload", ["ensemble", "nas", "kernels"])
def test_an_entry_of_weather_is_not_one_of_another_workload(workload: str) -> None:
    assert not OF_TEST.is_valid(stored() | {"workload": workload})


@pytest.mark.parametrize("field", ["index", "quality", "gflops", "figures", "figures.valid_gflops"])
def test_the_best_row_of_weather_is_complete(field: str) -> None:
    result = mixed()
    path = ("summary", "best", [best["workload"] for best in result["summary"]["best"]].index("weather"))
    other, best = altered(result, (*path, *field.split(".")[:-1]))
    del best[field.split(".")[-1]]
    assert not VALIDATOR.is_valid(other)
    del result["summary"]["best"][path[-1]]
    VALIDATOR.validate(result)
