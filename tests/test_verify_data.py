"""Verification of what a result says of its data: invented properties are found, whatever else is made anew."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from alterations import verified
from hpcai.report.consistency.dataset import dataset, description_of
from hpcai.result.judge import per_sample
from idx_files import write_set
from packed_set import packed_set
from small_run import cases_of, golden, judged

from hpcai.data import catalog, fashion_mnist
from hpcai.data.image_dataset import description
from hpcai.inputfile import Case
from hpcai.record.record import as_json

Json = dict[str, Any]
Forgery = Callable[[Json], object]

FULL = {
    "name": "fashion-mnist",
    "fingerprint": fashion_mnist.PUBLISHED,
    "shape": [1, 28, 28],
    "classes": 10,
    "training_samples": 60_000,
    "validation_samples": 10_000,
}
NUMBERS = "dataset: as many samples as its name says"
OFFICIAL = {
    "name": "imagenet",
    "fingerprint": "0" * 64,
    "shape": [3, 224, 224],
    "classes": 1000,
    "training_samples": 1_281_167,
    "validation_samples": 50_000,
}


def case_of(**settings: Any) -> Case:
    """The first case of the stored result, with other settings."""
    case = cases_of(golden())[0]
    return replace(case, settings={**case.settings, **settings})


def broken(spec: str, found: Json, **settings: Any) -> set[str]:
    """The claims that a description of data breaks, of all data that `spec` names unless SAMPLES are given."""
    claims = description_of(case_of(**{"DATASET": spec, "SAMPLES": 0, **settings}), found)
    return {claim for claim, holds in claims.items() if not holds}


def shaped(*shape: int) -> Forgery:
    """Other pictures, with the operations, bytes and peak that these would have had."""

    def forge(raw: Json) -> None:
        raw["dataset"]["shape"] = list(shape)
        raw["memory"] |= {"picture_bytes": shape[0] * shape[1] * shape[2], "data_bytes": 0}
        raw["executed_operations"] = raw["samples"] * per_sample(cases_of(golden())[0], raw)

    return forge


@pytest.mark.parametrize(
    "forge",
    [
        shaped(1, 224, 224),
        shaped(64, 28, 28),
        lambda raw: raw.update(target=0.04),
        lambda raw: raw["dataset"].update(name="imagenet"),
        lambda raw: raw["dataset"].update(name="fashion-mnist"),
        lambda raw: raw["dataset"].update(fingerprint="0" * 64),
        lambda raw: raw["dataset"].update(ceiling=0.9, ceiling_error=0.1),
    ],
)
def test_invented_properties_of_the_shipped_data_are_caught(forge: Forgery, tmp_path: Path) -> None:
    result = golden()
    forge(result["tests"][0]["raw"])
    found = verified(judged(result), tmp_path)
    assert any(
        line.startswith(("tests[0].raw does not fulfil: dataset", "tests[0].raw does not fulfil: target"))
        for line in found
    )


def test_the_target_is_the_datasets_own_unless_the_input_has_one() -> None:
    raw = golden()["tests"][0]["raw"]
    claim, range_claim = "target: TARGET, or the dataset's own", "0 < target <= 1"
    for spec, own in (("fashion", 0.85), ("fashion:full", 0.90), ("imagenet:x", 0.763)):
        for target in (own, 0.2):
            found = dataset(case_of(DATASET=spec, TARGET=0.0), {**raw, "target": target})
            assert found[claim] == (target == own) and found[range_claim]
    assert not dataset(case_of(), {**raw, "target": 0.0})[range_claim]
    assert not dataset(case_of(), {**raw, "target": 1.1})[range_claim]


@pytest.mark.parametrize("samples", [0, 7])
def test_real_files_break_no_claim(samples: int, tmp_path: Path) -> None:
    write_set(tmp_path, [*range(10)] * 2, [*range(10)])
    specs = ["fashion", f"fashion:{tmp_path}", f"imagenet:{packed_set()}", "generated"]
    for spec in specs:
        opened = catalog.open_dataset(spec, samples)
        raw = {"dataset": as_json(description(opened)), "target": opened.target}
        asked = case_of(DATASET=spec, SAMPLES=samples, TARGET=0.0, SEED=0)
        assert all(dataset(asked, raw).values()), (spec, dataset(asked, raw))


def test_whole_published_sets_break_no_claim() -> None:
    assert broken("fashion:full", FULL) == broken("imagenet:x", OFFICIAL) == set()
    part = {"fingerprint": "0" * 64, "training_samples": 1000}
    assert broken("fashion:full", FULL | part, SAMPLES=1000) == set()
    assert broken("imagenet:x", OFFICIAL | part, SAMPLES=1000) == set()


@pytest.mark.parametrize(
    ("claim", "spec", "whole", "found", "settings"),
    [
        ("training_samples = SAMPLES", "imagenet:x", OFFICIAL, {"training_samples": 9}, {"SAMPLES": 8}),
        ("classes = CLASSES", "imagenet:x", OFFICIAL, {}, {"CLASSES": 10}),
        ("dataset: a ceiling is known of generated data only", "fashion:full", FULL, {"ceiling": 0.9}, {}),
        ("dataset: pictures of 1 x 28 x 28 in 10 classes", "fashion:full", FULL, {"shape": [1, 224, 224]}, {}),
        ("dataset: pictures of 1 x 28 x 28 in 10 classes", "fashion:full", FULL, {"classes": 100}, {}),
        ("dataset: the name that its fingerprint has", "fashion:x", FULL, {"fingerprint": "0" * 64}, {}),
        ("dataset: the name that its fingerprint has", "fashion:x", FULL, {"name": "fashion-mnist-altered"}, {}),
        ("dataset: the name that its fingerprint has", "fashion:x", FULL, {"name": "imagenet"}, {"SAMPLES": 60_000}),
        ("dataset: part of the published set is another set", "fashion:x", FULL, {}, {"SAMPLES": 60_000}),
        (NUMBERS, "fashion:full", FULL, {"training_samples": 59_999}, {}),
        (NUMBERS, "fashion:full", FULL, {"validation_samples": 9_999}, {}),
        (NUMBERS, "fashion:x", FULL, {"training_samples": 10**6}, {"SAMPLES": 10**6}),
        ("dataset: pictures of 3 x 224 x 224", "imagenet:x", OFFICIAL, {"shape": [3, 448, 448]}, {"RESOLUTION": 448}),
        ("dataset: imagenet, or named after its classes", "imagenet:x", OFFICIAL, {"name": "imagefolder-10"}, {}),
        (NUMBERS, "imagenet:x", OFFICIAL, {"training_samples": 1}, {}),
        (NUMBERS, "imagenet:x", OFFICIAL, {"classes": 10}, {}),
    ],
)  # fmt: skip
def test_each_claim_can_be_broken(claim: str, spec: str, whole: Json, found: Json, settings: Json) -> None:
    assert claim in broken(spec, {**whole, **found}, **settings)
