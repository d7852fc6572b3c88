"""Dataset of the tests of `[weather]`: climate fields."""

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from hpcai.data import catalog, dataset_paths
from hpcai.data.source import DataSource, Settings
from hpcai.data.weather.weather_dataset import Weather
from hpcai.frozen.fields import PackedFields, PublishedFields
from hpcai.frozen.samples import Source

if TYPE_CHECKING:
    from mpi4py import MPI


def _survey(settings: Settings, comm: "MPI.Comm") -> None:
    """Survey published fields not surveyed yet."""
    if catalog.is_weather(settings["DATASET"]):
        catalog.open_weather_for(settings, comm=comm)


def _again(settings: Settings, dataset: Weather) -> Source:
    """Reads the fields of a case anew; `dataset` is what was opened."""
    spec, samples = settings["DATASET"], settings["SAMPLES"]
    if not catalog.is_weather(spec):
        from hpcai.data.weather.regenerated import RegeneratedFields

        return RegeneratedFields(settings["CLASSES"], settings["RESOLUTION"], settings["SEED"])
    path = dataset_paths.locate(spec)
    if (path / dataset_paths.WEATHER_INDEX).is_file():
        return PackedFields(path, samples)
    return PublishedFields(path, samples, (dataset.mean.astype(np.float64), dataset.std.astype(np.float64)))


SOURCE = DataSource(
    catalog.open_weather_for, partial(catalog.open_weather_for, surveyed=False), _survey, again=_again
)
