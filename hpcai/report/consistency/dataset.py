"""What a test says of its data owes what is known of them: all of generated and shipped data, much of the others."""

from collections.abc import Mapping
from functools import lru_cache
from math import isclose
from typing import Any

from hpcai.data import catalog, fashion_mnist, packed_images
from hpcai.data.dataset_paths import GENERATED
from hpcai.data.image_dataset import description
from hpcai.data.image_shards import CHANNELS
from hpcai.data.weather import layout
from hpcai.data.weather.weather_dataset import description as fields_described
from hpcai.inputfile import Case
from hpcai.inputfile.keys import Value
from hpcai.record.record import as_json

Json = dict[str, Any]

ROUNDING = 1e-9  # of the ceiling, should another machine round its sums otherwise
WHOLE = ("fashion", GENERATED)  # can be opened anywhere, and are the same everywhere
TARGETS = {"fashion": catalog.TARGET_FULL, "imagenet": packed_images.TARGET, "extremeweather": layout.TARGET}
FULL = {"fashion": {"train": 60_000, "validation": 10_000}, "imagenet": packed_images.SAMPLES}


def dataset(case: Case, raw: Json) -> dict[str, bool]:
    """The data of a test that has ended, and the quality to reach on them."""
    return {
        **description_of(case, raw["dataset"]),
        "0 < target <= 1": 0 < raw["target"] <= 1,
        "target: TARGET, or the dataset's own": isclose(raw["target"], _target(case), abs_tol=ROUNDING),
    }


def description_of(case: Case, found: Json) -> dict[str, bool]:
    """What a test says of its data, also of one that ended early."""
    claims = {
        "training_samples = SAMPLES": case["SAMPLES"] in (0, found["training_samples"]),
        "classes = CLASSES": case["CLASSES"] in (0, found["classes"]),
    }
    if case["DATASET"] in WHOLE:
        return {**claims, "dataset: the one that the input names": _same(found, _known(case)[0])}
    of_kind = KINDS[case["DATASET"].partition(":")[0]]
    return {
        **claims,
        "dataset: a ceiling is known of generated data only": not {"ceiling", "ceiling_error"} & set(found),
        **of_kind(case, found),
    }


def _fashion(case: Case, found: Json) -> dict[str, bool]:
    """Files of Fashion-MNIST's format: the published set, or one with another fingerprint and name."""
    published, altered = fashion_mnist.name(fashion_mnist.PUBLISHED), fashion_mnist.name("")
    own = fashion_mnist.name(found["fingerprint"])
    shape = [1, fashion_mnist.SIDE, fashion_mnist.SIDE]
    return {
        "dataset: pictures of 1 x 28 x 28 in 10 classes": (found["shape"], found["classes"])
        == (shape, fashion_mnist.CLASSES),
        "dataset: the name that its fingerprint has": found["name"]
        in ((published, altered) if case["SAMPLES"] else (own,)),
        "dataset: part of the published set is another set": not case["SAMPLES"] or own == altered,
        "dataset: as many samples as its name says": found["name"] != published or _full(case, found, "fashion"),
    }


def _pictures(case: Case, found: Json) -> dict[str, bool]:
    """Packed pictures: the official set, or a folder of other ones."""
    official, folder = "imagenet", f"imagefolder-{found['classes']}"
    shape = [CHANNELS, packed_images.CROPS.evaluated, packed_images.CROPS.evaluated]
    numbers = found["classes"] == packed_images.CLASSES and _full(case, found, official)
    return {
        "dataset: pictures of 3 x 224 x 224": found["shape"] == shape,
        "dataset: imagenet, or named after its classes": found["name"] in (official, folder),
        "dataset: as many samples as its name says": found["name"] != official or numbers,
    }


def _fields(case: Case, found: Json) -> dict[str, bool]:
    """Files in the layout of ExtremeWeather: those of its size have the bare name, unless they were generated."""
    _, height, width = found["shape"]
    size = f"{height}x{width}"
    published = "extremeweather" if (height, width) == (layout.HEIGHT, layout.WIDTH) else f"extremeweather-{size}"
    return {
        "dataset: fields of 16 channels with 4 classes": (found["shape"][0], found["classes"])
        == (len(layout.CHANNELS), len(layout.CLASSES)),
        "dataset: the name that its size has": found["name"] in (published, f"generated-weather-{size}"),
        "dataset: the grid's own RESOLUTION": case["RESOLUTION"] in (0, height),
    }


KINDS = {"fashion": _fashion, "imagenet": _pictures, "extremeweather": _fields}


def _full(case: Case, found: Json, name: str) -> bool:
    """Whether there are the samples of a full set, or SAMPLES of its training samples and all others."""
    train, validation = FULL[name].values()
    training = found["training_samples"]
    whole = training <= train if case["SAMPLES"] else training == train
    return bool(whole and found["validation_samples"] == validation)


def _target(case: Case) -> float:
    if case["TARGET"]:
        return float(case["TARGET"])
    if case["DATASET"] in WHOLE:
        return _known(case)[1]
    return TARGETS[case["DATASET"].partition(":")[0]]


def _known(case: Case) -> tuple[Json, float]:
    settings = tuple((name, case.data_settings[name]) for name in ("DATASET", *catalog.ASKED))
    return _opened(case.workload == "weather", settings)


@lru_cache(maxsize=64)
def _opened(weather: bool, settings: tuple[tuple[str, Value], ...]) -> tuple[Json, float]:
    """What a result says of the dataset, and its target; the data themselves are let go."""
    if weather:
        fields = catalog.open_weather_for(dict(settings))
        return as_json(fields_described(fields)), fields.target
    found = catalog.open_for(dict(settings))
    return as_json(description(found)), found.target


def _same(found: Json, expected: Mapping[str, Any]) -> bool:
    return found.keys() == expected.keys() and all(
        isclose(found[name], value, abs_tol=ROUNDING) if isinstance(value, float) else found[name] == value
        for name, value in expected.items()
    )
