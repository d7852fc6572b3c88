"""Dataset of the tests of `[weather]`: climate fields."""

from functools import partial
from typing import TYPE_CHECKING

from hpcai.data import catalog
from hpcai.data.source import DataSource, Settings

if TYPE_CHECKING:
    from mpi4py import MPI


def _survey(settings: Settings, comm: "MPI.Comm") -> None:
    """Survey published fields not surveyed yet."""
    if catalog.is_weather(settings["DATASET"]):
        catalog.open_weather_for(settings, comm=comm)


SOURCE = DataSource(catalog.open_weather_for, partial(catalog.open_weather_for, surveyed=False), _survey)
