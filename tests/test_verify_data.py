"""Verification of the description of data in a result: invented properties are detected, whatever else is adapted."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from examples.ensemble import EXAMPLES
from examples.training import stored, violated_claims
from idx_files import write_set
from msgspec import convert, structs
from packed_set import packed_set
from small_run import golden, rebuilt

from hpcai.claims.image_data_claims import IMAGE_DATA
from hpcai.data import catalog, fashion_mnist
from hpcai.data.image_dataset import description
from hpcai.record.dataset import Dataset
from hpcai.results.alterations import Alteration, changed, together
from hpcai.results.claim import Subject, violated
from hpcai.results.row import per_sample

Json = dict[str, Any]
TARGET = "target: TARGET, or the dataset's own"
FULL = {
    "name": "fashion-mnist",
    "fingerprint": fashion_mnist.PUBLISHED,
    "shape": [1, 28, 28],
    "classes": 10,
    "training_samples": 60_000,
    "validation_samples": 10_000,
}
NUMBERS = "dataset: as many samples as its name says"
NAMED = "dataset: imagenet, or named after its content"
IMAGENET = "dataset: imagenet has its samples and classes"
OFFICIAL = {
    "name": "imagenet",
    "fingerprint": "0" * 64,
    "shape": [3, 224, 224],
    "classes": 1000,
    "training_samples": 1_281_167,
    "validation_samples": 50_000,
}


def claims_of(spec: str, dataset: Dataset, target: float = 0.2, **settings: Any) -> set[str]:
    """The claims that a description of data violates, of all data that `spec` names unless SAMPLES are given."""
    test = stored("ensemble")[0]
    case = replace(test.case, settings={**test.case.settings, "DATASET": spec, "SAMPLES": 0, "TARGET": 0.2, **settings})
    raw = structs.replace(test.entry.raw, dataset=dataset, target=target)
    entry = structs.replace(test.entry, raw=raw)
    return {*violated((IMAGE_DATA,), Subject(case, entry, test.environment))}


def broken_by(spec: str, found: Json, **settings: Any) -> set[str]:
    return claims_of(spec, convert(found, Dataset), **settings)


def shaped(*shape: int) -> Alteration:
    """Other images, with the operations, bytes and peak that they would have."""
    data = structs.replace(stored("ensemble")[0].entry.raw.dataset, shape=shape)
    return together(
        changed("raw.dataset.shape", list(shape)),
        changed("memory.data.image_bytes", shape[0] * shape[1] * shape[2]),
        changed("memory.data.data_bytes", 0),
        changed("raw.work.executed_operations", 800 * per_sample(stored("ensemble")[0].case, data)),
    )


@pytest.mark.parametrize(
    "forge",
    [
        shaped(1, 224, 224),
        shaped(64, 28, 28),
        changed("raw.target", 0.04),
        changed("raw.dataset.name", "imagenet"),
        changed("raw.dataset.name", "fashion-mnist"),
        changed("raw.dataset.fingerprint", "0" * 64),
        together(changed("raw.dataset.ceiling", 0.9), changed("raw.dataset.ceiling_error", 0.1)),
    ],
)
def test_invented_properties_of_the_shipped_data_are_detected(forge: Alteration) -> None:
    found = violated_claims(stored("ensemble")[0], forge)
    assert any(claim.startswith(("dataset", "target")) for claim in found)
    result = golden()
    forge(result["tests"][0])
    assert rebuilt(result)["tests"][0]["verdict"] == "FAILED"


def test_the_target_is_the_datasets_own_unless_the_input_has_one() -> None:
    for spec, own, data in (
        ("fashion", 0.85, stored("ensemble")[0].entry.raw.dataset),
        ("fashion:full", 0.90, EXAMPLES["files"].entry.raw.dataset),
        ("imagenet:x", 0.763, EXAMPLES["packed"].entry.raw.dataset),
    ):
        for target in (own, 0.2, 0.0, 1.1):
            found = claims_of(spec, data, target, TARGET=0.0, SAMPLES=200 if spec == "fashion" else 0)
            assert found == (set() if target == own else {TARGET})


@pytest.mark.parametrize("samples", [0, 7])
def test_real_files_violate_no_claim(samples: int, tmp_path: Path) -> None:
    write_set(tmp_path, [*range(10)] * 2, [*range(10)])
    specs = ["fashion", f"fashion:{tmp_path}", f"imagenet:{packed_set()}", "generated"]
    for spec in specs:
        opened = catalog.open_dataset(spec, samples)
        found = claims_of(spec, description(opened), opened.target, SAMPLES=samples, TARGET=0.0, SEED=0)
        assert found == set(), spec


def test_complete_published_sets_violate_no_claim() -> None:
    assert broken_by("fashion:full", FULL) == broken_by("imagenet:x", OFFICIAL) == set()
    part = {"fingerprint": "0" * 64, "training_samples": 1000}
    assert broken_by("fashion:full", FULL | part, SAMPLES=1000) == set()
    assert broken_by("imagenet:x", OFFICIAL | part, SAMPLES=1000) == set()


@pytest.mark.parametrize(
    ("claim", "spec", "whole", "found", "settings"),
    [
        ("training_samples = SAMPLES", "imagenet:x", OFFICIAL, {"training_samples": 9}, {"SAMPLES": 8}),
        ("classes = CLASSES", "imagenet:x", OFFICIAL, {}, {"CLASSES": 10}),
        ("dataset: a ceiling is known of generated data only", "fashion:full", FULL, {"ceiling": 0.9}, {}),
        ("dataset: images of 1 x 28 x 28 in 10 classes", "fashion:full", FULL, {"shape": [1, 224, 224]}, {}),
        ("dataset: images of 1 x 28 x 28 in 10 classes", "fashion:full", FULL, {"classes": 100}, {}),
        ("dataset: the name that its fingerprint has", "fashion:x", FULL, {"fingerprint": "0" * 64}, {}),
        ("dataset: the name that its fingerprint has", "fashion:x", FULL, {"name": "fashion-mnist-altered"}, {}),
        ("dataset: the name that its fingerprint has", "fashion:x", FULL, {"name": "imagenet"}, {"SAMPLES": 60_000}),
        ("dataset: part of the published set is another set", "fashion:x", FULL, {}, {"SAMPLES": 60_000}),
        (NUMBERS, "fashion:full", FULL, {"training_samples": 59_999}, {}),
        (NUMBERS, "fashion:full", FULL, {"validation_samples": 9_999}, {}),
        (NUMBERS, "fashion:x", FULL, {"training_samples": 10**6}, {"SAMPLES": 10**6}),
        ("dataset: images of 3 x 224 x 224", "imagenet:x", OFFICIAL, {"shape": [3, 448, 448]}, {"RESOLUTION": 448}),
        (NAMED, "imagenet:x", OFFICIAL, {"name": "imagefolder-10"}, {}),
        (NAMED, "imagenet:x", OFFICIAL, {"name": "imagefolder-1000-00000000"}, {}),
        (IMAGENET, "imagenet:x", OFFICIAL, {"training_samples": 1}, {}),
        (IMAGENET, "imagenet:x", OFFICIAL, {"classes": 10}, {}),
    ],
)  # fmt: skip
def test_each_claim_can_be_violated(claim: str, spec: str, whole: Json, found: Json, settings: Json) -> None:
    assert claim in broken_by(spec, {**whole, **found}, **settings)
