"""The verdict VALID, UNOFFICIAL or INVALID: every rule alone, all at once, and the printed reasons."""

import math
import re

import pytest

from hpcai.formulas.eligibility import Eligibility, official, worst
from hpcai.formulas.official_rules import LANGUAGE

OFFICIAL = {
    "dataset": "imagenet",
    "original": True,
    "samples": 1_281_167,
    "classes": 1000,
    "resolution": (224, 224),
    "network": "resnet50",
    "variant": "v1.5",
    "epochs": 90,
    "target": 0.763,
    "penalty": 5,
    "bits": 32,
    "passed": True,
    "completed": True,
}
SHIPPED = OFFICIAL | {"dataset": "fashion", "samples": 6000, "epochs": 8, "target": 0.85}
ELSEWHERE = (
    "dataset fashion, official imagenet",
    "samples 6000, official 1281167",
    "epochs 8, official 90",
    "target 0.85, official 0.763",
)


def test_the_official_problem_is_valid():
    assert official(OFFICIAL) == Eligibility("VALID", ())
    assert official(OFFICIAL | {"bits": 16, "penalty": 5.0}) == Eligibility("VALID", ())


@pytest.mark.parametrize("facts", [OFFICIAL, SHIPPED])
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"passed": False}, "checks FAILED, official PASSED"),
        ({"completed": False}, "run broken off, official completed"),
        ({"penalty": 10}, "penalty 10, official 5"),
        ({"penalty": 4.5}, "penalty 4.5, official 5"),
        ({"bits": 8}, "precision 8 bits, official at least 16"),
    ],
)
def test_each_broken_rule_makes_the_result_invalid(facts, change, reason):
    audit = official(facts | change)
    assert audit.status == "INVALID"
    assert audit.reasons[0] == reason
    assert audit.reasons[1:] == official(facts).reasons


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"epochs": 89}, "epochs 89, official 90"),
        ({"epochs": 91}, "epochs 91, official 90"),
        ({"network": "resnet18"}, "network resnet18, official resnet50"),
        ({"variant": "v1"}, "variant v1, official v1.5"),
        ({"resolution": (32, 32)}, "resolution 32x32, official 224x224"),
        ({"resolution": (224, 225)}, "resolution 224x225, official 224x224"),
        ({"target": 0.75}, "target 0.75, official 0.763"),
        ({"target": 0.8}, "target 0.8, official 0.763"),
    ],
)
def test_official_data_with_other_settings(change, reason):
    assert official(OFFICIAL | change) == Eligibility("INVALID", (reason,))


def test_other_data_are_unofficial():
    assert official(SHIPPED) == Eligibility("UNOFFICIAL", ELSEWHERE)
    alike = OFFICIAL | {"dataset": "generated"}
    assert official(alike) == Eligibility("UNOFFICIAL", ("dataset generated, official imagenet",))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"samples": 1000}, "samples 1000, official 1281167"),
        ({"classes": 10}, "classes 10, official 1000"),
        ({"original": False}, "dataset imagenet altered, official imagenet unaltered"),
    ],
)
def test_part_or_alteration_of_the_official_data(change, reason):
    assert official(OFFICIAL | change) == Eligibility("UNOFFICIAL", (reason,))
    audit = official(OFFICIAL | change | {"epochs": 2})
    assert audit == Eligibility("UNOFFICIAL", (reason, "epochs 2, official 90"))


TEXT = OFFICIAL | {
    "dataset": "enwik8",
    "samples": 175_781,
    "classes": 256,
    "resolution": (1, 512),
    "network": "decoder12x512",
    "epochs": 50,
    "target": 1.11,
}


@pytest.mark.parametrize(
    ("change", "status", "reason"),
    [
        ({"bits": 16}, "VALID", None),
        ({"passed": False}, "INVALID", "checks FAILED, official PASSED"),
        ({"penalty": 10}, "INVALID", "penalty 10, official 5"),
        ({"bits": 8}, "INVALID", "precision 8 bits, official at least 16"),
        ({"epochs": 8}, "INVALID", "epochs 8, official 50"),
        ({"target": 1.2}, "INVALID", "target 1.2, official 1.11"),
        ({"network": "decoder6x256"}, "INVALID", "network decoder6x256, official decoder12x512"),
        ({"resolution": (1, 128)}, "INVALID", "resolution 1x128, official 1x512"),
        ({"samples": 1000}, "UNOFFICIAL", "samples 1000, official 175781"),
        ({"dataset": "text-512"}, "UNOFFICIAL", "dataset text-512, official enwik8"),
        ({"dataset": "generated-text-512"}, "UNOFFICIAL", "dataset generated-text-512, official enwik8"),
    ],
)
def test_the_rules_of_language_models(change, status, reason):
    assert official(TEXT | change, LANGUAGE) == Eligibility(status, (reason,) if reason else ())


def test_all_reasons_are_named():
    audit = official(SHIPPED | {"passed": False, "completed": False, "penalty": 1, "bits": 4})
    assert audit.status == "INVALID"
    assert len(audit.reasons) == 8
    assert audit.reasons[4:] == ELSEWHERE


def test_quality_is_never_a_reason():
    assert official(OFFICIAL | {"quality": 0.1}) == Eligibility("VALID", ())


@pytest.mark.parametrize("fact", OFFICIAL)
def test_a_missing_fact_is_an_error(fact):
    with pytest.raises(KeyError, match=fact):
        official({name: value for name, value in OFFICIAL.items() if name != fact})


@pytest.mark.parametrize("fact", OFFICIAL)
@pytest.mark.parametrize("value", [math.nan, None, "1", "", -math.inf])
def test_nonsense_is_never_valid(fact, value):
    assert official(OFFICIAL | {fact: value}).status != "VALID"


@pytest.mark.parametrize(
    "change",
    [
        {"dataset": "imagenet:/data/WRF/pictur\u00e9s " + "x" * 300},
        {"dataset": "WWRR\nWR11S1V4 1 2 3 4 5.0 6"},
        {"target": 1e-30, "samples": 10**30},
        {"target": 1e300, "epochs": math.nan, "penalty": math.inf},
        {"bits": 1e-5, "passed": False, "completed": False},
    ],
)
def test_reasons_are_short_and_have_fixed_point_numbers(change):
    reasons = official(SHIPPED | change).reasons
    for reason in reasons:
        assert len(reason) < 80
        assert re.fullmatch(r"[ -~]+", reason)
        assert "WR" not in reason
        assert not re.search(r"\d[eE][-+]?\d", reason)
        assert ", official " in reason


def test_the_worst_verdict_counts_for_a_run():
    good, other, bad = official(OFFICIAL), official(SHIPPED), official(SHIPPED | {"passed": False})
    assert worst([good, good]) == good
    assert worst([good, other, other]) == other
    longer = official(SHIPPED | {"epochs": 20})
    assert worst([other, longer]) == Eligibility("UNOFFICIAL", (*ELSEWHERE, "epochs 20, official 90"))
    assert worst([good, other, bad]) == Eligibility("INVALID", ("checks FAILED, official PASSED", *ELSEWHERE))


def test_a_run_without_tests_is_not_valid():
    assert worst([]) == Eligibility("INVALID", ("no training test, so there is nothing to rank",))
