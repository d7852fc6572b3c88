"""The types of a result: the loader's refusal comes first, and names the place; the schema is not less strict."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from alterations import places, put, verified
from jsonschema import Draft202012Validator
from sampled_parameters import IN_PARTS, of_part
from small_run import REAL_RUNS, Run, golden, renewed

from hpcai.errors import InputError
from hpcai.record.loading import result_of
from hpcai.record.schema import schema

VALIDATOR = Draft202012Validator(schema())
VALUES = (None, True, 0, -1, 10**400, 0.5, -0.5, "", "x", [], [0], {}, {"x": 1}, "2026-13-01T00:00:00+00:00")
RAW = ("tests", 0, "raw")


@REAL_RUNS
def test_real_results_have_their_types(run: Callable[[], Run]) -> None:
    for result in (golden(), run().result):
        result_of(result)
        VALIDATOR.validate(result)


@pytest.mark.slow
@IN_PARTS
def test_values_that_jsonschema_refuses_are_refused(part: int) -> None:
    result = golden()
    del result["tests"][1]
    found = set()
    for index, path in enumerate(of_part(places(result), part)):
        other = put(copy.deepcopy(result), path, VALUES[index % len(VALUES)])
        legal = VALIDATOR.is_valid(other)
        found.add(legal)
        if not legal:
            with pytest.raises(InputError):
                result_of(other)
    assert found == {True, False}


@pytest.mark.parametrize(
    ("place", "value", "fault"),
    [
        ((*RAW, "ensemble", "correct"), 465.5, "tests[0].raw.ensemble.correct: "),
        ((*RAW, "preparation", "warmup_steps"), 4.5, "tests[0].raw.preparation.warmup_steps: "),
        ((*RAW, "preparation", "warmup_steps"), 4.0, ""),
        (("environment", "nodes"), 0, "environment.nodes: "),
        ((*RAW, "dataset", "fingerprint"), "", "tests[0].raw.dataset.fingerprint: "),
        ((*RAW, "dataset", "name"), "", "tests[0].raw.dataset.name: "),
        (("date",), "2026-11-21T15:58:28+00:00x", "date: "),
        (("date",), "2026-11-21T15:58:28+00:00\n", "date: "),
        (("version",), "", "version: "),
        ((*RAW, "x" * 1000), 1, "tests[0].raw: "),
    ],
)
def test_wrong_types_with_a_new_digest_are_detected(
    place: tuple[Any, ...], value: Any, fault: str, tmp_path: Path
) -> None:
    found = verified(renewed(put(golden(), place, value)), tmp_path)
    assert found and found[0].startswith(fault)
