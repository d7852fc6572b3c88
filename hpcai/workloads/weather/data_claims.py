"""Claims about the climate fields of `[weather]`: generated, and in files."""

from collections.abc import Callable
from functools import lru_cache

from hpcai.claims.dataset_claims import dataset_of, described, target_claim
from hpcai.data import catalog
from hpcai.data.dataset_paths import GENERATED
from hpcai.data.weather import layout
from hpcai.data.weather.weather_dataset import description
from hpcai.inputfile import Case
from hpcai.inputfile.key import Value
from hpcai.record.dataset import Dataset
from hpcai.results.alterations import changed
from hpcai.results.claim import Claim, Subject

FILES = "files"  # example that reads packed frames


def known(case: Case) -> tuple[Dataset, float] | None:
    """Description and target of generated fields, which do not depend on the machine; None for others."""
    if case.dataset != GENERATED:
        return None
    return _opened(tuple((name, case.data_settings[name]) for name in ("DATASET", *catalog.ASKED)))


@lru_cache(maxsize=64)
def _opened(settings: tuple[tuple[str, Value], ...]) -> tuple[Dataset, float]:
    """Description and target of a dataset, which is then released."""
    found = catalog.open_weather_for(dict(settings))
    return description(found), found.target


def weather_data(where: str = "raw.") -> tuple[Claim, ...]:
    """Claims about the description of climate fields; `where` is its path in the entry."""
    return (
        *described(known, where),
        Claim(
            "dataset: fields of 16 channels with 4 classes",
            _in_files(lambda case, data: (data.shape[0], data.classes) == (len(layout.CHANNELS), len(layout.CLASSES))),
            changed(f"{where}dataset.classes", 2),
            FILES,
        ),
        Claim(
            "dataset: the name that its size has",
            _in_files(_named),
            changed(f"{where}dataset.name", "extremeweather"),
            FILES,
        ),
        Claim(
            "dataset: the grid's own RESOLUTION",
            _in_files(lambda case, data: case.resolution in (0, data.shape[1])),
            changed(f"{where}dataset.shape", [16, 96, 144]),
            FILES,
        ),
    )


def _in_files(holds: Callable[[Case, Dataset], bool]) -> Callable[[Subject], bool]:
    """A claim about fields in files; it holds for generated ones."""
    return lambda subject: subject.case.dataset == GENERATED or holds(subject.case, dataset_of(subject))


def _named(case: Case, data: Dataset) -> bool:
    """Fields of the published size have the bare name, unless they were generated."""
    _, height, width = data.shape
    size = f"{height}x{width}"
    bare = (height, width) == (layout.HEIGHT, layout.WIDTH)
    return data.name in ("extremeweather" if bare else f"extremeweather-{size}", f"generated-weather-{size}")


def _target(case: Case) -> float:
    found = known(case)
    return found[1] if found else layout.TARGET


WEATHER_DATA = (*weather_data(), target_claim(_target))
