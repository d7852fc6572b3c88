"""Results of older schemas are read and verified, and an altered one is found."""

import json
from pathlib import Path
from typing import Any

import pytest
from alterations import leaves, other_values, put
from small_run import GOLDEN

from hpcai.errors import InputError
from hpcai.inputfile.keys import keys_of
from hpcai.record.loading import load, result_of
from hpcai.record.older import BY_RULES, JUDGED, LACKING, READ, upgraded
from hpcai.record.plain import digest
from hpcai.verification import verify

OLDER = sorted(GOLDEN.glob("schema*/*.json"))
EACH = pytest.mark.parametrize("path", OLDER, ids=lambda path: f"{path.parent.name}-{path.stem}")


def stored(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def differences(document: Any, folder: Path) -> list[str]:
    (folder / "result.json").write_text(json.dumps(document), "utf-8")
    return verify.differences(folder / "result.json")


def test_every_older_schema_has_a_stored_result() -> None:
    assert {stored(path)["schema"] for path in OLDER} == {*LACKING}
    assert len(READ) == len(LACKING) + 1


@EACH
def test_an_older_result_is_read_and_verified(path: Path, tmp_path: Path) -> None:
    result = load(path)
    assert all(set(keys_of(test.workload)) for test in result.tests)
    assert all(test.settings["OPTIMISER"] == "sgd" and test.settings["SCALING"] == "linear" for test in result.tests)
    assert differences(stored(path), tmp_path) == []
    said = verify.sound_message(path)
    assert f"report, tables and status of schema {stored(path)['schema']} are not compared" in said


def by_rules(place: tuple[Any, ...]) -> bool:
    """Whether a value follows from rules that have changed."""
    return not {*place}.isdisjoint(JUDGED) or place[:1] == ("summary",) and place[1] in BY_RULES


@EACH
@pytest.mark.parametrize("step", [97, pytest.param(7, marks=pytest.mark.exhaustive)])
def test_an_altered_older_result_is_detected(path: Path, step: int, tmp_path: Path) -> None:
    for place, value in [leaf for leaf in leaves(stored(path)) if not by_rules(leaf[0])][::step]:
        for other in other_values(value):
            altered = stored(path)
            put(altered, place, other)
            altered = {**altered, "digest": digest(altered)} if place != ("digest",) else altered
            try:
                assert differences(altered, tmp_path), f"{place}: {value} -> {other}"
            except InputError:
                assert place == ("schema",)


@EACH
def test_a_removed_value_or_an_added_one_is_detected(path: Path, tmp_path: Path) -> None:
    for change in (
        lambda d: d["tests"][0]["scores"].pop("flops"),
        lambda d: d["tests"][0]["settings"].update(TRUST=0.5),
        lambda d: d["summary"].pop("fingerprint"),
        lambda d: d["input"]["sections"][0]["keys"].pop("BATCH"),
        lambda d: d["tests"][0].pop("workload"),
        lambda d: d.pop("tables"),
    ):
        altered = stored(path)
        change(altered)
        assert differences({**altered, "digest": digest(altered)}, tmp_path)


@EACH
@pytest.mark.parametrize(("joules", "watts"), [(5.0, None), (None, 5.0), (-1.0, -1.0), (9.0, 1e9)])
def test_contradicting_energy_of_an_older_telemetry_is_refused(
    path: Path, joules: float | None, watts: float | None, tmp_path: Path
) -> None:
    altered = stored(path)
    altered["tests"][0]["telemetry"] |= {"gpu_joules": joules, "gpu_watts": watts}
    assert differences({**altered, "digest": digest(altered)}, tmp_path)


@EACH
def test_sound_energy_of_an_older_telemetry_is_left_out(path: Path) -> None:
    altered = stored(path)
    telemetry = altered["tests"][0]["telemetry"]
    telemetry |= {"gpu_joules": 50.0 * telemetry["series"][-1][0], "gpu_watts": 50.0}
    assert not hasattr(result_of(altered).tests[0].telemetry, "gpu_joules")


@EACH
def test_a_document_of_the_schema_is_not_changed(path: Path) -> None:
    document = upgraded(stored(path))
    assert document["schema"] == READ[-1] and upgraded(document) is document
