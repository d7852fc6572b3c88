"""Generated data follow from the input alone: their bytes, their ceiling and their target are worked out again."""

from math import isclose
from typing import Any

from hpcai.data import catalog
from hpcai.data.dataset import description
from hpcai.data.places import GENERATED
from hpcai.inputfile import Case

Json = dict[str, Any]

ROUNDING = 1e-9  # of the ceiling, should another machine round its sums otherwise


def generated(case: Case, raw: Json) -> dict[str, bool]:
    found = raw["dataset"]
    if case["DATASET"] != GENERATED:
        return {"real data have no ceiling and no generated name": _real(found)}
    made = catalog.open_for(case.data_settings)
    return {
        "dataset: the one that the input generates": _same(found, description(made)),
        "target: the dataset's own": case["TARGET"] != 0 or isclose(raw["target"], made.target, abs_tol=ROUNDING),
    }


def _real(found: Json) -> bool:
    return not {"ceiling", "ceiling_error"} & set(found) and not found["name"].startswith(GENERATED)


def _same(found: Json, expected: Json) -> bool:
    return found.keys() == expected.keys() and all(
        isclose(found[name], value, abs_tol=ROUNDING) if isinstance(value, float) else found[name] == value
        for name, value in expected.items()
    )
