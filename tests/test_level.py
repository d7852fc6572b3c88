"""The nine layers and three levels: each difference from the reference is found, and allowed where it may be."""

import os
import re
from typing import Any, get_args

import pytest
from launch import ROOT
from sample_records import environment

from hpcai.formulas.official_rules import ANY, IMAGES, LANGUAGE, SEARCHES, WEATHER, OfficialRules
from hpcai.inputfile import Case, parse
from hpcai.inputfile.keys import keys_of
from hpcai.record.library_variables import PREFIXES
from hpcai.record.machine import Environment
from hpcai.record.record import Level
from hpcai.results.layers import ABOVE_TORCH, EQUAL, OLDEST_TORCH, TORCH, broken, of_machine, of_test

OFFICIAL = {"imagenet": IMAGES, "extremeweather": WEATHER, "enwik8": LANGUAGE, "aiperf": SEARCHES}
FILE = f"file:{os.path.relpath(ROOT / 'bench.py')}"
DIGEST = "0123456789ab" + 52 * "0"
RULES = (ROOT / "docs" / "RULES.md").read_text(encoding="utf-8")


def machine(variables: dict[str, str] | None = None, torch: str = f"{TORCH}+cpu", source: str = DIGEST) -> Environment:
    return environment(variables=variables or {}, packages={"torch": torch}, source_sha256=source)


def official(name: str, *changes: str) -> Case:
    """The official problem, with changes in the manner of --set."""
    text = (ROOT / "inputs" / f"{name}.dat").read_bytes()
    return parse(text, list(changes), 8, lambda spec: None, name).cases(8, 4)[0]


def texts(case: Case, of: Environment) -> dict[int, str]:
    """What is printed of each layer, without its subject."""
    layers = [*of_machine(of), *of_test(case, of, "1.2.3")]
    return {layer.number: layer.text.split(": ", 1)[1] for layer in layers}


@pytest.mark.parametrize("name", OFFICIAL)
def test_the_official_problems_are_of_the_level_that_they_claim(name: str) -> None:
    case = official(name)
    assert case["LEVEL"] == "hardware" and broken(case, machine()) == ()
    assert texts(case, machine()) == {
        **dict.fromkeys((1, 2, 6), "any"),
        **dict.fromkeys((3, 4), "any release"),
        **dict.fromkeys((5, 8), "reference"),
        7: "version 1.2.3, source 0123456789ab",
        9: "reference by its KEYs, and Status judges the data",
    }


DIFFERENCES: list[tuple[int, str, list[str], dict[str, Any]]] = [
    (3, "NCCL_ALGO Ring, reference unset", [], {"variables": {"NCCL_ALGO": "Ring"}}),
    (3, "OMPI_MCA_btl tcp,self, reference unset", [], {"variables": {"OMPI_MCA_btl": "tcp,self"}}),
    (4, "CUBLAS_WORKSPACE_CONFIG , reference unset", [], {"variables": {"CUBLAS_WORKSPACE_CONFIG": ""}}),
    (5, "TORCH_NCCL_BLOCKING_WAIT 1, reference unset", [], {"variables": {"TORCH_NCCL_BLOCKING_WAIT": "1"}}),
    (5, f"torch 2.12.1, reference {TORCH}", [], {"torch": "2.12.1+cu130"}),
    (7, "source not recorded", [], {"source": ""}),
    (8, "BATCH 64, reference 128", ["BATCH=64"], {}),
    (8, "BATCH 128, reference 256", ["PRECISION=fp16"], {}),
    (8, "SEED 11, reference 10", ["SEED=11"], {}),
    (8, "DECAY 0.0001, reference 3.05e-05", ["DECAY=1e-4"], {}),
    (8, "WIRE fp16, reference fp32", ["WIRE=fp16"], {}),
    (8, "RESIDUAL 17, reference 16", ["RESIDUAL=17"], {}),
    (8, "SAMPLER poisson, reference multinomial", ["SAMPLER=poisson"], {}),
    (8, "SCALING sqrt, reference linear", ["SCALING=sqrt"], {}),
    (8, "NETWORK resnet18, reference resnet50", ["NETWORK=resnet18"], {}),
    (9, "DATASET fashion, reference imagenet", ["DATASET=fashion"], {}),
    (9, "SAMPLES 1000, reference 0", ["SAMPLES=1000"], {}),
    (9, "EPOCHS 30, reference 90", ["EPOCHS=30"], {}),
    (9, "TARGET 0.7, reference 0.763", ["TARGET=0.7"], {}),
    (9, "PENALTY 2, reference 5", ["PENALTY=2"], {}),
    (9, "RESOLUTION 128, reference 224", ["RESOLUTION=128"], {}),
]


@pytest.mark.parametrize(("layer", "difference", "changes", "facts"), DIFFERENCES, ids=[row[1] for row in DIFFERENCES])
def test_each_difference_is_found_and_breaks_the_levels_that_forbid_it(
    layer: int, difference: str, changes: list[str], facts: dict[str, Any]
) -> None:
    assert_found("imagenet", layer, difference, changes, machine(**facts))


def assert_found(name: str, layer: int, difference: str, changes: list[str], of: Environment) -> None:
    """A difference from an official problem is in its layer only, and breaks the levels that forbid it."""
    found, equal = texts(official(name, *changes), of), texts(official(name), machine())
    assert difference in found[layer]
    assert {number for number in found if found[number] != equal[number]} == {layer}
    for level, layers in EQUAL.items():
        reasons = (f"level {level}: layer {layer}: {difference}",) if layer in layers else ()
        assert broken(official(name, *changes, f"LEVEL={level}"), of) == reasons


@pytest.mark.parametrize(
    ("layer", "difference", "change"),
    [
        (8, "BATCH 16, reference 32", "BATCH=16"),
        (8, "BETA2 0.999, reference 0.95", "BETA2=0.999"),
        (8, "CLIP 0, reference 1", "CLIP=0"),
        (8, "LEARNRATE 0.004, reference 0.00085", "LEARNRATE=0.004"),
        (8, "SCALING none, reference sqrt", "SCALING=none"),
        (8, "NETWORK decoder12x768, reference decoder12x512", "NETWORK=decoder12x768"),
        (9, "DATASET text:somewhere, reference enwik8", "DATASET=text:somewhere"),
        (9, "RESOLUTION 0, reference 512", "RESOLUTION=0"),
        (9, "EPOCHS 8, reference 50", "EPOCHS=8"),
        (9, "TARGET 1.2, reference 1.11", "TARGET=1.2"),
    ],
)
def test_each_difference_from_the_language_problem_is_found(layer: int, difference: str, change: str) -> None:
    assert_found("enwik8", layer, difference, [change], machine())


@pytest.mark.parametrize(
    ("layer", "changes", "facts", "text"),
    [
        (6, ["COMPILE=torch"], {}, "any; COMPILE torch"),
        (6, ["MAPPING=column"], {}, "any; MAPPING column"),
        (6, ["ALLREDUCE=torus"], {}, "any; ALLREDUCE torus"),
        (6, ["STAGE=local"], {"variables": {"OMP_PROC_BIND": "close"}}, "any; STAGE local; OMP_PROC_BIND close"),
        (6, ["GROUPS=1", "DEGREE=8", "PRECISION=fp16", "BATCH=256", "REPEAT=3", "EVALUATE=10"], {}, "any"),
        (7, [f"KERNELS={FILE}"], {}, f"version 1.2.3, source 0123456789ab; KERNELS {FILE}, allowed at every level"),
        (7, ["KERNELS=custom"], {}, "version 1.2.3, source 0123456789ab"),
        (9, ["TARGET=0", "RESOLUTION=0"], {}, "reference by its KEYs, and Status judges the data"),
    ],
)  # fmt: skip
def test_what_every_level_allows(layer: int, changes: list[str], facts: dict[str, Any], text: str) -> None:
    of = machine(**facts)
    case = official("imagenet", *changes)
    assert texts(case, of)[layer] == text
    assert broken(case, of) == ()


@pytest.mark.parametrize(
    ("torch", "levels"),
    [
        (TORCH, ["hardware", "system", "free"]),
        ("2.11.0", ["system", "free"]),
        ("2.13.0a0+gitabc", ["system", "free"]),
        ("2.10.1", ["free"]),
        ("3.0.0", ["free"]),
        ("unknown", ["free"]),
    ],
)
def test_releases_of_torch_by_level(torch: str, levels: list[str]) -> None:
    of = machine(torch=torch)
    assert [level for level in EQUAL if not broken(official("imagenet", f"LEVEL={level}"), of)] == levels


def test_the_torch_of_the_levels_is_that_of_constraints_and_of_setup() -> None:
    assert f"torch=={TORCH}\n" in (ROOT / "constraints.txt").read_text()
    oldest, above = ".".join(map(str, OLDEST_TORCH)), ABOVE_TORCH[0]
    assert f'"torch>={oldest},<{above}"' in (ROOT / "setup.py").read_text()


def test_the_seed_of_a_repetition_is_the_inputs() -> None:
    cases = parse(
        (ROOT / "inputs" / "imagenet.dat").read_bytes(), ["REPEAT=3"], 8, lambda spec: None, "imagenet.dat"
    ).cases(8, 4)
    assert [case.seed for case in cases] == [10, 11, 12]
    assert not any(broken(case, machine()) for case in cases)


@pytest.mark.parametrize(("value", "allowed"), [("rounds", True), (FILE, False)])
def test_a_search_may_have_the_results_of_earlier_rounds(value: str, allowed: bool) -> None:
    assert (broken(official("aiperf", f"REPLAY={value}", "BATCH=64"), machine()) == ()) == allowed


OF_TABLES = (IMAGES, WEATHER, LANGUAGE, SEARCHES)


def recipes() -> list[tuple[OfficialRules, dict[str, str]]]:
    """The tables of the document: of each workload the cell of each KEY, in their order there."""
    tables = re.findall(r"^\| KEY \| reference \| \|\n\|---\|---\|---\|\n((?:\|.*\n)+)", RULES, re.MULTILINE)
    return [(rules, _cells(table)) for rules, table in zip(OF_TABLES, tables, strict=True)]


def _cells(table: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in table.splitlines():
        keys, cell, _ = (part.strip() for part in line.split("|")[1:-1])
        names = re.findall("`([A-Z0-9]+)`", keys)
        parts = [cell] * len(names) if cell == "any" else cell.replace("`", "").split(", ")
        found |= dict(zip(names, parts, strict=True))
    return found


@pytest.mark.parametrize(("rules", "cells"), recipes(), ids=["images", "weather", "language", "searches"])
def test_the_recipes_of_the_document_are_those_of_the_program(rules: OfficialRules, cells: dict[str, str]) -> None:
    def number(word: str) -> float | str:
        return float(word) if re.fullmatch(r"[\d.]+(e-?\d+)?", word) else word

    expected = {key: ANY if cell == "any" else tuple(map(number, cell.split(" or "))) for key, cell in cells.items()}
    assert rules.recipe(32) == expected


def test_the_batch_of_the_document_with_16_bits() -> None:
    (line,) = (line for line in RULES.splitlines() if "with 16-bit products" in line)
    assert line.startswith("| `BATCH` | 128 | 256 with")
    assert IMAGES.recipe(16) == {**IMAGES.recipe(32), "BATCH": (256,)}
    assert all(rules.recipe(16) == rules.recipe(32) for rules in (WEATHER, LANGUAGE, SEARCHES))


@pytest.mark.parametrize(
    ("section", "rules"), [*zip(("ensemble", "weather", "language", "nas"), OF_TABLES, strict=True)]
)
def test_recipes_and_problems_name_keys_of_their_section(section: str, rules: OfficialRules) -> None:
    known = {key.name for key in (*keys_of(""), *keys_of(section))}
    assert {*rules.recipe(32)} <= known
    assert {*rules.problem()} - known <= {"PENALTY"}


def test_the_document_lists_the_prefixes() -> None:
    for layer, prefixes in PREFIXES.items():
        assert f"| {layer} | {', '.join(f'`{prefix}*`' for prefix in prefixes)} |\n" in RULES


def test_the_levels_are_declared_alike() -> None:
    (key,) = (key for key in keys_of("") if key.name == "LEVEL")
    assert key.choices == get_args(Level) == tuple(EQUAL)


@pytest.mark.parametrize("name", OFFICIAL)
def test_keys_that_change_nothing_measured_are_allowed_at_every_level(name: str) -> None:
    changes = ("MLLOG=on", "ENERGY=250", "TELEMETRY=10", "TIMELIMIT=900", "OUTPUT=other")
    for level in get_args(Level):
        assert broken(official(name, *changes, f"LEVEL={level}"), machine()) == ()
