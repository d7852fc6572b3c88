"""The roofline in a result follows from its tables: any altered number of it is detected."""

from pathlib import Path
from typing import Any

import pytest
from alterations import leaves, put, verified
from result_with_tables import with_tables
from small_run import rebuilt, renewed

Json = dict[str, Any]
MEMBERS = ("roofline", "gradient_bandwidth")


def placed() -> list[tuple[tuple[str | int, ...], Any]]:
    """All roofline values, in every test."""
    return [
        found
        for index, test in enumerate(with_tables()["tests"])
        for member in MEMBERS
        for found in leaves(test["scores"][member], ("tests", index, "scores", member))
    ]


def test_the_ceilings_are_those_of_the_made_up_tables() -> None:
    alone, group = (test["scores"]["roofline"] for test in with_tables()["tests"])
    assert (alone["kernels"]["test"], alone["all_reduce"]) == (1, None)
    assert (group["kernels"]["test"], group["all_reduce"]["test"], group["all_reduce"]["scope"]) == (1, 2, "world")


@pytest.mark.slow
def test_every_altered_number_is_detected(tmp_path: Path) -> None:
    for path, value in placed():
        for other in _others(value):
            found = verified(renewed(put(with_tables(), path, other)), tmp_path)
            assert any(str(path[3]) in difference for difference in found), f"{path}: {value} -> {other}"


def _others(value: Any) -> list[Any]:
    if isinstance(value, str):
        return ["memory" if value != "memory" else "compute", "none"]
    return [0.5] if value is None else [value * 2 + 1, None]


@pytest.mark.parametrize("member", MEMBERS)
def test_a_missing_member_is_detected(tmp_path: Path, member: str) -> None:
    result = with_tables()
    del result["tests"][1]["scores"][member]
    assert verified(renewed(result), tmp_path)


def test_a_lowered_ceiling_raises_the_shares(tmp_path: Path) -> None:
    """An altered measurement requires all derived values to be altered, and the result then differs."""
    result = with_tables()
    before = result["tests"][0]["scores"]["roofline"]["shares"]
    for row in result["tables"][0]["raw"]["rows"]:
        row["seconds"] *= 2
    assert verified(renewed(result), tmp_path)
    after = rebuilt(result)["tests"][0]["scores"]["roofline"]["shares"]
    known = [name for name, share in before.items() if share is not None]
    assert {name: after[name] for name in known} == pytest.approx({name: 2 * before[name] for name in known})
