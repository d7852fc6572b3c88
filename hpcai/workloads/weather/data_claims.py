"""Claims about the climate fields of `[weather]`: generated, and in files."""

from collections.abc import Mapping

from hpcai.claims.dataset_claims import described, in_files, same_everywhere, target_claim
from hpcai.data import catalog
from hpcai.data.dataset_paths import GENERATED
from hpcai.data.weather import layout
from hpcai.data.weather.weather_dataset import description
from hpcai.inputfile import Case
from hpcai.inputfile.key import Value
from hpcai.record.dataset import Dataset
from hpcai.results.alterations import changed
from hpcai.results.claim import Claim

FILES = "files"  # example that reads packed frames


def _opened(settings: Mapping[str, Value]) -> tuple[Dataset, float]:
    found = catalog.open_weather_for(settings)
    return description(found), found.target


known = same_everywhere((GENERATED,), _opened)


def weather_data(where: str = "raw.") -> tuple[Claim, ...]:
    """Claims about the description of climate fields; `where` is its path in the entry."""
    return (
        *described(known, where),
        Claim(
            "dataset: fields of 16 channels with 4 classes",
            in_files(lambda case, data: (data.shape[0], data.classes) == (len(layout.CHANNELS), len(layout.CLASSES))),
            changed(f"{where}dataset.classes", 2),
            FILES,
        ),
        Claim(
            "dataset: the name that its size has",
            in_files(_named),
            changed(f"{where}dataset.name", "extremeweather"),
            FILES,
        ),
        Claim(
            "dataset: the grid's own RESOLUTION",
            in_files(lambda case, data: case.resolution in (0, data.shape[1])),
            changed(f"{where}dataset.shape", [16, 96, 144]),
            FILES,
        ),
    )


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
