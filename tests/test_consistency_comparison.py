"""Comparisons with the vendor in rows of ensembles and weather: forged ones are refused, deviations fail a row."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from alterations import verified
from examples.training import COMPARISON
from msgspec import convert
from msgspec.structs import replace
from result_with_weather import result_of, section, stored_measurements
from small_run import INPUT, rebuilt, renewed

from hpcai.errors import HpcaiError
from hpcai.inputfile import parse
from hpcai.record.loading import result_of as loaded
from hpcai.record.plain import plain
from hpcai.record.preflight import VendorComparison
from hpcai.report import files
from hpcai.results.measured import Measured

Json = dict[str, Any]
CUSTOM = "custom         KERNELS\n"
ROWS = range(4)


def compared(measured: Measured, classifies: bool) -> Measured:
    """The measurements with a comparison and its phase."""
    found = convert({**COMPARISON, "evaluated": COMPARISON["evaluated"] if classifies else None}, VendorComparison)
    raw = measured.raw
    preparation = replace(raw.preparation, vendor_comparison=found)
    phases = replace(raw.phases, vendor_comparison=0.05)
    return Measured(replace(raw, preparation=preparation, phases=phases), measured.memory, measured.telemetry)


def custom(kernels: str = CUSTOM) -> Json:
    """An ensemble on two grids and weather on two, by custom kernels; free to be altered."""
    weather = section().replace("[weather]\n", f"[weather]\n{kernels}")
    problem = parse("\n".join([INPUT.read_text("utf-8") + kernels, weather]), name="input.dat")
    measurements = [compared(each, index < 2) for index, each in enumerate(stored_measurements())]
    return plain(result_of(problem, measurements))


def test_rows_by_custom_kernels_are_verified(tmp_path: Path) -> None:
    result = custom()
    assert verified(result, tmp_path) == []
    assert result["summary"]["failed"] == 0
    assert {test["tv"][6] for test in result["tests"]} == {"C"}
    assert all(test["scores"]["custom_speed"] == pytest.approx(0.75) for test in result["tests"])


def altered(index: int, change: Callable[[Json], object]) -> Json:
    """All derived values are computed again after a change of raw measurements; HpcaiError if a record refuses them."""
    result = custom()
    change(result["tests"][index]["raw"])
    return rebuilt(result)


def _comparison(raw: Json) -> Json:
    found: Json = raw["preparation"]["vendor_comparison"]
    return found


def _without_phase(raw: Json) -> None:
    raw["phases"]["vendor_comparison"] = None


def _without(raw: Json) -> None:
    raw["preparation"]["vendor_comparison"] = None


def _no_time(raw: Json) -> None:
    _comparison(raw)["custom_seconds"] = 0.0


def _no_rounding(what: str, raw: Json) -> None:
    part = _comparison(raw)[what]
    part["rounding"] = 0.0
    part |= {"custom": part["vendor"]} if what == "losses" else {"deviation": 0.0}


def _evaluated(raw: Json) -> None:
    """As in a row of the other workload."""
    there = _comparison(raw)["evaluated"]
    _comparison(raw)["evaluated"] = None if there else COMPARISON["evaluated"]


FORGED: dict[str, Callable[[Json], object]] = {
    "no phase": _without_phase,
    "no comparison": _without,
    "no time at all": _no_time,
    "no rounding of losses": partial(_no_rounding, "losses"),
    "evaluation of the other kind": _evaluated,
    "no rounding of gradients": partial(_no_rounding, "gradient"),
    "no rounding of statistics": partial(_no_rounding, "statistics"),
}


@pytest.mark.parametrize("name", FORGED)
@pytest.mark.parametrize("index", ROWS)
def test_forged_measurements_are_refused(index: int, name: str, tmp_path: Path) -> None:
    try:
        made = altered(index, FORGED[name])
    except HpcaiError:  # a record refuses it
        return
    assert made["tests"][index]["verdict"] == "FAILED" or verified(made, tmp_path)


@pytest.mark.parametrize("index", ROWS)
def test_derived_numbers_changed_alone_are_refused(index: int, tmp_path: Path) -> None:
    def found(change: Callable[[Json], object]) -> str:
        result = custom()
        change(result["tests"][index])
        return "\n".join(verified(renewed(result), tmp_path))

    def comparison(test: Json) -> Json:
        return _comparison(test["raw"])

    assert "checks" in found(lambda test: comparison(test)["losses"].update(custom=[2.0, 1.5, 1.2, 1.0]))
    assert "checks" in found(lambda test: comparison(test)["statistics"].update(deviation=0.01))
    assert "custom_speed" in found(lambda test: comparison(test).update(vendor_seconds=0.019))
    assert "custom_speed" in found(lambda test: test["scores"].update(custom_speed=1.1))
    assert "checks" in found(lambda test: test["checks"].pop(2))


def test_rows_of_the_vendor_have_no_comparison() -> None:
    assert all(test["verdict"] == "FAILED" for test in custom(kernels="")["tests"])


@pytest.mark.parametrize(
    ("name", "values", "verdict"),
    [
        ("losses", {"custom": [2.0, 1.5, 1.2, 1.2]}, "loss"),
        ("gradient", {"deviation": 0.07}, "gradient"),
        ("statistics", {"deviation": 9e-4}, "statistics"),
    ],
)
def test_a_deviation_fails_a_row_of_each_kind(name: str, values: Json, verdict: str) -> None:
    for index in ROWS:
        test = altered(index, lambda raw: _comparison(raw)[name].update(values))["tests"][index]
        failed = [each["name"] for each in test["checks"] if each["verdict"] == "FAILED"]
        assert len(failed) == 1 and failed[0].startswith(f"{verdict} deviation from vendor"), failed
        assert test["verdict"] == "FAILED"


def test_a_deviation_in_evaluation_fails_a_row() -> None:
    test = altered(0, lambda raw: _comparison(raw)["evaluated"].update(custom=[0.91]))["tests"][0]
    failed = [each["name"] for each in test["checks"] if each["verdict"] == "FAILED"]
    assert len(failed) == 1 and failed[0].startswith("loss deviation from vendor")


def test_the_report_names_the_place_of_the_deviation_and_the_speed() -> None:
    text = files.report(loaded(custom()))
    where = "largest deviation of gradients in stem_conv, of statistics in stem_norm"
    assert text.count(f"Vendor comparison: {where}") == len(ROWS)
    assert text.count("throughput by custom kernels / by the vendor's=        0.7500000") == len(ROWS)
