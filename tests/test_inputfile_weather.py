"""Sections with different values of a KEY: values of [weather], and options that apply to some sections only."""

import pytest
from sample_input import SMALL
from test_inputfile_refused import refusal

from hpcai.inputfile import parse
from hpcai.inputfile.keys import all_keys, keys_by_name, keys_of
from hpcai.networks import DECODING, DETECTING, NAMES

WEATHER = "\n[weather]\ngenerated DATASET\n2 GROUPS\n1 DEGREE\n4 BATCH\n"
BOTH = SMALL + WEATHER


def settings(text: str, *options: str) -> dict[str, dict[str, set[object]]]:
    """The values of the cases of each section, by KEY."""
    found: dict[str, dict[str, set[object]]] = {}
    for case in parse(text, options).cases(2):
        for name, value in case.settings.items():
            found.setdefault(case.workload, {}).setdefault(name, set()).add(value)
    return found


def test_each_key_has_the_values_of_its_section() -> None:
    for key in all_keys():
        assert {*key.own} <= {*key.sections}, key.name
        for section in key.sections:
            own = key.of(section)
            assert (own.name, own.kind, own.sections) == (key.name, key.kind, key.sections)
            assert own == key or section in key.own
            for value in key.default_in(section):
                assert not own.choices or str(value) in own.choices, (key.name, section)


def test_weather_takes_detectors_and_other_sections_classifiers() -> None:
    network = keys_by_name()["NETWORK"]
    assert sorted(network.of("weather").choices) == sorted(DETECTING)
    assert sorted(network.of("nas").choices) == sorted(NAMES)
    assert sorted(network.of("language").choices) == sorted(DECODING)
    assert refusal(SMALL + "fasterrcnn8 NETWORK\n").count("fasterrcnn8 is unknown; allowed: resnet8") == 1
    assert "allowed: fasterrcnn8 | fasterrcnn18" in refusal(BOTH + "resnet8 NETWORK\n")
    assert "allowed: generated | extremeweather:PATH" in refusal(BOTH.replace("generated DATASET", "fashion DATASET"))


def test_weather_has_defaults_of_its_own() -> None:
    found = settings(BOTH)["weather"]
    assert (found["NETWORK"], found["PENALTY"], found["TARGET"]) == ({"fasterrcnn8"}, {10.0}, {0.0})
    assert {*found} == {key.name for section in ("", "weather") for key in keys_of(section)}


@pytest.mark.parametrize("option", ["NETWORK=fasterrcnn18", "network = fasterrcnn18", "weather.NETWORK=fasterrcnn18"])
def test_an_option_applies_to_the_sections_that_allow_its_value(option: str) -> None:
    before, after = settings(BOTH), settings(BOTH, option)
    assert after["weather"]["NETWORK"] == {"fasterrcnn18"}
    assert after["ensemble"] == before["ensemble"]


def test_options_for_different_sections_are_combined() -> None:
    found = settings(BOTH, "NETWORK=fasterrcnn18", "NETWORK=resnet14", "EPOCHS=7", "weather.EPOCHS=9")
    assert (found["weather"]["NETWORK"], found["ensemble"]["NETWORK"]) == ({"fasterrcnn18"}, {"resnet14"})
    assert (found["weather"]["EPOCHS"], found["ensemble"]["EPOCHS"]) == ({9}, {7})
    assert settings(BOTH, "DATASET=generated")["ensemble"]["DATASET"] == {"generated"}


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("weather.NETWORK=resnet8", ["allowed: fasterrcnn8"]),
        ("ensemble.NETWORK=fasterrcnn8", ["allowed: resnet8"]),
        ("NETWORK=alexnet", ["allowed: fasterrcnn8", "allowed: resnet8"]),
        ("NETWORK=resnet8,fasterrcnn8", ["allowed: fasterrcnn8", "allowed: resnet8"]),
        ("EPOCHS=0", ["0 is out of range"]),
        ("weather.COMPILE=off", ["section [weather] has no COMPILE"]),
        ("nas.NETWORK=resnet8", ["the file has no section [nas]; it has NETWORK in [ensemble] [weather]"]),
        ("DATASET=extremeweather:", ["allowed: generated |", "allowed: fashion |"]),
    ],
)
def test_values_that_no_section_allows_are_refused_with_the_allowed_ones_of_each(option: str, words: list[str]) -> None:
    refused = refusal(BOTH, option)
    assert f"--set {option}" in refused and all(refused.count(word) == 1 for word in words), refused


def test_replaced_settings_are_echoed_and_parsed_again() -> None:
    problem = parse(BOTH, ["NETWORK=fasterrcnn18"])
    assert problem.overrides == ("NETWORK=fasterrcnn18",)
    assert settings(problem.text, *problem.overrides) == settings(BOTH, "NETWORK=fasterrcnn18")
