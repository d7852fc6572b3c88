"""The verdict VALID, UNOFFICIAL or INVALID on a search, by AIPerf's rules."""

import math
from typing import Any

import pytest

from hpcai.formulas.eligibility import Eligibility, search_eligibility

OFFICIAL = {
    "dataset": "imagenet",
    "original": True,
    "samples": 1_281_167,
    "classes": 1000,
    "resolution": (224, 224),
    "epochs": 60,
    "network": "resnet50",
    "variant": "v1",
    "strategy": "bayes",
    "weights": "inherited",
    "replay": "off",
    "seconds": 43_200.0,
    "error": 0.29,
    "bits": 16,
    "passed": True,
    "completed": True,
}
SMALL = OFFICIAL | {"dataset": "fashion", "samples": 6000, "network": "resnet8", "seconds": 40.0, "epochs": 8}


def test_the_official_problem_is_valid() -> None:
    assert search_eligibility(OFFICIAL) == Eligibility("VALID", ())
    assert search_eligibility(
        OFFICIAL | {"error": 0.3, "seconds": 3600, "replay": "rounds", "bits": 32}
    ) == Eligibility("VALID", ())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"passed": False}, "checks FAILED, official PASSED"),
        ({"completed": False}, "run broken off, official completed"),
        ({"bits": 8}, "precision 8 bits, official at least 16"),
    ],
)
def test_each_rule_of_every_search_can_be_broken(change: dict[str, Any], reason: str) -> None:
    for facts in (OFFICIAL, SMALL):
        audit = search_eligibility(facts | change)
        assert audit.status == "INVALID" and audit.reasons[0] == reason
        assert audit.reasons[1:] == search_eligibility(facts).reasons


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"error": 0.3000001}, "error 0.3, official at most 0.3"),
        ({"error": 0.41}, "error 0.41, official at most 0.3"),
        ({"seconds": 3599.9}, "seconds 3599.9, official at least 3600"),
        ({"epochs": 59}, "epochs 59, official 60"),
        ({"network": "resnet18"}, "network resnet18, official resnet50"),
        ({"variant": "v1.5"}, "variant v1.5, official v1"),
        ({"strategy": "random"}, "strategy random, official bayes"),
        ({"weights": "fresh"}, "weights fresh, official inherited"),
        ({"replay": "file:/data/history.jsonl"}, "replay of a recorded search, official a search"),
    ],
)
def test_rules_that_can_be_broken_on_the_official_data_alone(change: dict[str, Any], reason: str) -> None:
    assert search_eligibility(OFFICIAL | change) == Eligibility("INVALID", (reason,))
    elsewhere = search_eligibility(OFFICIAL | {"dataset": "fashion"} | change)
    assert elsewhere == Eligibility("UNOFFICIAL", ("dataset fashion, official imagenet", reason))


def test_the_resolution_is_judged_on_the_official_data_only() -> None:
    small = {"resolution": (192, 192)}
    assert search_eligibility(OFFICIAL | small).reasons == ("resolution 192x192, official 224x224",)
    assert len(search_eligibility(OFFICIAL | {"dataset": "fashion"} | small).reasons) == 1


def test_a_small_search_is_unofficial_with_every_reason() -> None:
    assert search_eligibility(SMALL) == Eligibility(
        "UNOFFICIAL",
        (
            "dataset fashion, official imagenet",
            "samples 6000, official 1281167",
            "epochs 8, official 60",
            "network resnet8, official resnet50",
            "seconds 40, official at least 3600",
        ),
    )


@pytest.mark.parametrize("fact", OFFICIAL)
def test_a_missing_fact_is_an_error(fact: str) -> None:
    with pytest.raises(KeyError, match=fact):
        search_eligibility({name: value for name, value in OFFICIAL.items() if name != fact})


@pytest.mark.parametrize("fact", OFFICIAL)
@pytest.mark.parametrize("value", [math.nan, None, "1", "", -math.inf])
def test_nonsense_is_never_valid(fact: str, value: Any) -> None:
    assert search_eligibility(OFFICIAL | {fact: value}).status != "VALID"
