"""What steps beside the vendor's owe the input and the clock, in rows of ensembles, weather and searches."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from alterations import verified
from hpcai.report.schema import check
from made_weather import section
from small_run import INPUT, golden, golden_weather, judged, renewed
from synthetic_search import SEARCH, raw_of, result_of

from hpcai.inputfile import parse
from hpcai.report import files, schema

Json = dict[str, Any]
LAYER = {"where": "stem_conv", "off": 1e-4, "rounding": 1e-4, "size": 1.0}
BESIDE = {
    "losses": {"custom": [2.0, 1.5, 1.2, 1.1], "vendor": [2.0, 1.5, 1.2, 1.10001], "rounding": 1e-5},
    "evaluated": {"custom": [0.9], "vendor": [0.90001], "rounding": 1e-5},
    "gradient": LAYER,
    "statistics": LAYER | {"where": "stem_norm"},
    "custom_seconds": 0.02,
    "vendor_seconds": 0.015,
}
OWN = "custom         KERNELS\n"


def custom(kernels: str = OWN) -> Json:
    """An ensemble on two grids, weather on two and a search, by our kernels; to be altered at will."""
    weather = section().replace("[weather]\n", f"[weather]\n{kernels}")
    text = "\n".join([INPUT.read_text("utf-8") + kernels, weather, SEARCH + kernels])
    problem = parse(text, name="input.dat")
    raws = [test["raw"] for test in golden()["tests"] + golden_weather()["tests"]]
    raws += [raw_of(case) for case in problem.cases(2) if case.workload == "nas"]
    for index, (raw, case) in enumerate(zip(raws, problem.cases(2), strict=True)):
        raw["beside"] = {name: value.copy() if isinstance(value, dict) else value for name, value in BESIDE.items()}
        raw["phases"]["beside"] = 0.05
        if case.workload == "weather":
            del raw["beside"]["evaluated"]
        if index:
            raw["phases"].pop("start-up", None)
    raws[0]["phases"]["start-up"] += 0.05
    return result_of(problem, raws)


def rows() -> list[int]:
    return list(range(len(custom()["tests"])))


def test_rows_by_our_kernels_are_verified(tmp_path: Path) -> None:
    result = custom()
    assert list(check.violations(result, schema.schema())) == []
    assert verified(result, tmp_path) == []
    assert result["summary"]["failed"] == 0
    assert {test["tv"][6] for test in result["tests"]} == {"C"}
    assert all(test["scores"]["kernels_speed"] == pytest.approx(0.75) for test in result["tests"])


def altered(index: int, change: Callable[[Json], object]) -> Json:
    """All that follows is made anew after a change of raw measurements."""
    result = custom()
    change(result["tests"][index]["raw"])
    return judged(result)


def _without_phase(raw: Json) -> None:
    del raw["phases"]["beside"]


def _without(raw: Json) -> None:
    del raw["beside"]


def _seconds(value: float, raw: Json) -> None:
    raw["beside"]["custom_seconds"] = value


def _no_rounding(what: str, raw: Json) -> None:
    raw["beside"][what] = raw["beside"][what] | {"rounding": 0.0, "off": 0.0} if what != "losses" else {
        **raw["beside"]["losses"], "custom": raw["beside"]["losses"]["vendor"], "rounding": 0.0
    }


def _evaluated(raw: Json) -> None:
    """As a row of the other kind would have it."""
    if raw["beside"].pop("evaluated", None) is None:
        raw["beside"]["evaluated"] = BESIDE["evaluated"]


FORGED: dict[str, tuple[Callable[[Json], object], str]] = {
    "no phase": (_without_phase, "beside if, and only if, KERNELS is not vendor"),
    "nothing beside": (_without, "beside if, and only if, KERNELS is not vendor"),
    "no time at all": (partial(_seconds, 0.0), ""),
    "longer than the phase": (partial(_seconds, 0.04), "beside: within its phase"),
    "no rounding of losses": (partial(_no_rounding, "losses"), "beside: nudged weights make differences"),
    "evaluation of the other kind": (_evaluated, "beside: evaluated if, and only if, classes are told"),
    "no rounding of gradients": (partial(_no_rounding, "gradient"), "beside: nudged weights make differences"),
    "no rounding of statistics": (partial(_no_rounding, "statistics"), "beside: nudged weights make differences"),
}


@pytest.mark.parametrize("name", FORGED)
@pytest.mark.parametrize("index", rows())
def test_forged_measurements_are_found(index: int, name: str, tmp_path: Path) -> None:
    change, claim = FORGED[name]
    try:
        found = verified(altered(index, change), tmp_path)
    except ZeroDivisionError:  # a forger's file cannot even be made
        return
    assert any(claim in each for each in found), found


@pytest.mark.parametrize("index", rows())
def test_numbers_that_are_changed_alone_do_not_follow(index: int, tmp_path: Path) -> None:
    def found(change: Callable[[Json], object]) -> str:
        result = custom()
        change(result["tests"][index])
        return "\n".join(verified(renewed(result), tmp_path))

    assert "checks" in found(lambda test: test["raw"]["beside"]["losses"].update(custom=[2.0, 1.5, 1.2, 1.0]))
    assert "checks" in found(lambda test: test["raw"]["beside"]["statistics"].update(off=0.01))
    assert "kernels_speed" in found(lambda test: test["raw"]["beside"].update(vendor_seconds=0.019))
    assert "kernels_speed" in found(lambda test: test["scores"].update(kernels_speed=1.1))
    assert "checks" in found(lambda test: test["checks"].pop(2))


def test_rows_of_the_vendor_have_nothing_beside(tmp_path: Path) -> None:
    result = custom(kernels="")
    found = verified(result, tmp_path)
    assert sum("beside if, and only if" in each for each in found) == len(result["tests"])


@pytest.mark.parametrize(
    ("name", "values", "verdict"),
    [("losses", {"custom": [2.0, 1.5, 1.2, 1.2]}, "loss"), ("gradient", {"off": 0.07}, "gradient"),
     ("statistics", {"off": 9e-4}, "statistics")],
)
def test_what_is_off_fails_a_row_of_each_kind(name: str, values: Json, verdict: str) -> None:
    for index in rows():
        test = altered(index, lambda raw: raw["beside"][name].update(values))["tests"][index]
        failed = [each["name"] for each in test["checks"] if each["verdict"] == "FAILED"]
        assert len(failed) == 1 and failed[0].startswith(f"{verdict} off the vendor's"), failed
        assert test["verdict"] == "FAILED"


def test_what_is_off_in_evaluation_fails_a_row() -> None:
    test = altered(0, lambda raw: raw["beside"]["evaluated"].update(custom=[0.91]))["tests"][0]
    failed = [each["name"] for each in test["checks"] if each["verdict"] == "FAILED"]
    assert len(failed) == 1 and failed[0].startswith("loss off the vendor's")


def test_the_report_says_where_and_how_fast() -> None:
    text = files.report(custom())
    tests = len(rows())
    where = "gradients of stem_conv and statistics of stem_norm"
    assert text.count(f"Beside  : furthest from the vendor's are {where}") == tests
    assert text.count("throughput by these kernels, of the vendor's=        0.7500000") == tests
