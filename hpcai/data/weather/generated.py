"""Generated extreme weather: a frame is a function of (seed, year, t), so that any rank can make any frame.

The layout is that of the published files, on a grid of any size; docs/WEATHER.md says what is generated.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from hpcai.data.philox import Integers
from hpcai.data.weather import atmospheric_rivers, storms, vortices
from hpcai.data.weather.background import YEARS, Background, double
from hpcai.data.weather.box_labels import CYCLONE, Labelled, bounds, ceiling, cut, is_cyclone, labels, strongest_wind
from hpcai.data.weather.layout import (
    ATMOSPHERIC_RIVER,
    BOXES,
    CHANNELS,
    CLASSES,
    EASIEST,
    EXTRATROPICAL_CYCLONE,
    FRAMES,
    HEIGHT,
    TARGET,
    TROPICAL_CYCLONE,
    TROPICAL_DEPRESSION,
)
from hpcai.data.weather.random_waves import RADIUS, Field
from hpcai.data.weather.tracks import NATURAL, Event, Events, Kind, active, events, plan
from hpcai.data.weather.weather_dataset import Boxes, Weather
from hpcai.errors import DataError

VERSION = 1  # of the formula
SAMPLES = FRAMES  # for training, where the input says 0
FIRST_YEAR = 1979  # for training; the next for validation, and so on in turn
_STRIDE = 903  # steps between samples, coprime to FRAMES: the first samples are spread over the year
TARGET_EASIEST = 0.8  # reached in a minute; incorrect training stays below half of it
STATISTICS, COARSE = 12, 192  # frames and most rows for mean and deviation
LEAST = 48  # rows of a grid, at least
DISTURBED = (Kind.HIGH, Kind.CLUSTER, Kind.TROPICAL, Kind.EXTRATROPICAL)  # in the order in which they are painted


@dataclass(frozen=True)
class Formula:
    """Parameters that determine the frames of a set: seed (64 bits), classes, grid, enlargement of storms."""

    seed: int
    classes: tuple[int, ...]
    height: int
    width: int
    enlarged: float

    @property
    def natural(self) -> bool:
        """Whether storms have natural sizes and shares; then TECA's criteria apply."""
        return self.enlarged == 1


def formula(classes: int, height: int, width: int, seed: int) -> Formula:
    """The formula of a set; DataError if classes are not 0, 2 or 4, or the grid is too small or not even."""
    if classes not in (0, len(EASIEST), len(CLASSES)):
        raise DataError(f"{classes} classes of generated weather; allowed: 2 ({', '.join(_names(EASIEST))}) or 4")
    if height < LEAST or width < LEAST or height % 2 or width % 2:
        raise DataError(f"a grid of {height} x {width} points; allowed: even numbers from {LEAST}")
    chosen = EASIEST if classes == len(EASIEST) else tuple(range(len(CLASSES)))
    return Formula(seed, chosen, height, width, max(1.0, NATURAL / height))


def _names(classes: tuple[int, ...]) -> list[str]:
    return [CLASSES[number] for number in classes]


class Maker:
    """Generator of the frames and boxes of a formula."""

    def __init__(self, formula: Formula) -> None:
        self.formula = formula
        self.plan = plan(formula.classes, formula.natural)
        self._background = Background(formula.seed, formula.height, formula.width)
        self._year = lru_cache(YEARS)(self._events)

    def _events(self, year: int) -> dict[Kind, Events]:
        return {kind: events(self.formula.seed, year, kind, self.plan) for kind in Kind}

    def events(self, year: int, t: int, kind: Kind) -> list[Event]:
        """The events of a kind in a frame."""
        return active(self._year(year)[kind], self.plan, t)

    def make(self, year: int, t: int, out: Field) -> Boxes:
        """Fill out, float32[16, H, W], with a frame; returns its boxes, int32[15, 5]."""
        f = self.formula
        double(self._background.at(year, t), out)
        rivers_found = [*self._rivers(out, year, t)]
        vortical = [(event, storms.storm(event, self.plan, f.enlarged)) for event in self._disturbances(year, t)]
        for _, storm in vortical:
            vortices.paint(out, storm.place, storm.hollow, storm.wet, storm.warmth)
        found = [*rivers_found, *self._cyclones(out, vortical)]
        return labels(found, f.seed, year, t, f.height, f.width)

    def _disturbances(self, year: int, t: int) -> Iterator[Event]:
        for kind in DISTURBED:
            yield from self.events(year, t, kind)

    def _rivers(self, out: Field, year: int, t: int) -> Iterator[tuple[Labelled, int]]:
        f = self.formula
        for event in self.events(year, t, Kind.RIVER):
            low, left, high, right = atmospheric_rivers.paint(out, *atmospheric_rivers.river(event, f.enlarged))
            box = cut((low, left, high + 1, right + 1), f.height, f.width)
            yield (*box, ATMOSPHERIC_RIVER), _number(event)

    def _cyclones(self, out: Field, storms_there: list[tuple[Event, storms.Storm]]) -> Iterator[tuple[Labelled, int]]:
        f = self.formula
        for event, storm in storms_there:
            row, column = _centre(event, f)
            tropical = event.kind == Kind.TROPICAL
            if not (tropical or event.kind == Kind.EXTRATROPICAL):
                continue
            if f.natural and not is_cyclone(out, row, column, tropical):
                continue
            number = self._class(out, storm, row, column) if tropical else EXTRATROPICAL_CYCLONE
            if number in f.classes:
                yield (*cut(bounds(storm, f.height, f.width), f.height, f.width), number), _number(event)

    def _class(self, out: Field, storm: storms.Storm, row: int, column: int) -> int:
        """Class of a tropical storm, by the wind in its core."""
        degrees = 2 * np.degrees(storm.core / RADIUS)
        rows, columns = degrees * self.formula.height / 180, degrees * self.formula.width / 360
        wind = strongest_wind(out, row, column, max(2, round(rows)), max(2, round(columns)))
        return TROPICAL_CYCLONE if wind >= CYCLONE else TROPICAL_DEPRESSION


def _number(event: Event) -> int:
    """Number of an event, unique in its year."""
    return event.number * len(Kind) + event.kind


def _centre(event: Event, formula: Formula) -> tuple[int, int]:
    row = round((event.latitude + 90) * formula.height / 180 - 0.5)
    return row, round(event.longitude * formula.width / 360 - 0.5) % formula.width


@dataclass(frozen=True, eq=False)
class GeneratedFrames:
    """One split of a generated set; its frames are of every other year from `first` on."""

    formula: Formula
    first: int
    samples: int

    def __len__(self) -> int:
        return self.samples

    @property
    def nbytes(self) -> int:
        """Bytes of the boxes of all frames, which are kept."""
        return 4 * BOXES * 5 * self.samples

    @property
    def itemsize(self) -> int:
        """Bytes of a generated number."""
        return 4

    def frames(self, indices: Integers) -> Field:
        """Fields at the indices, float32[n, 16, H, W]."""
        out = np.empty((len(indices), len(CHANNELS), self.formula.height, self.formula.width), np.float32)
        for place, index in zip(out, indices, strict=True):
            self._known[int(index)] = self._maker.make(*self.moment(int(index)), place)
        return out

    def boxes(self, indices: Integers) -> Boxes:
        """Rows [ymin, xmin, ymax, xmax, class], int32[n, 15, 5]; boxes of a new frame require the frame."""
        for index in indices:
            if int(index) not in self._known:
                self.frames(np.array([index]))
        return np.array([self._known[int(index)] for index in indices], np.int32).reshape(-1, BOXES, 5)

    def moment(self, index: int) -> tuple[int, int]:
        """Year and step of a frame."""
        if not 0 <= index < self.samples:
            raise IndexError(f"frame {index} of {self.samples}")
        return self.first + 2 * (index // FRAMES), index * _STRIDE % FRAMES

    @property
    def moments(self) -> NDArray[np.int32]:
        """Year and step of each frame, int32[n, 2]."""
        return np.array([self.moment(index) for index in range(self.samples)], np.int32)

    @cached_property
    def _maker(self) -> Maker:
        return Maker(self.formula)

    @cached_property
    def _known(self) -> dict[int, Boxes]:
        return {}


def validation_samples(samples: int) -> int:
    """A sixth of the training frames, at least 48 and at most a year."""
    return min(FRAMES, max(48, samples // 6))


def statistics(the_formula: Formula) -> tuple[Field, Field]:
    """Mean and standard deviation of each channel, float32[16] each, from frames spread over a year."""
    coarser = max(1, the_formula.height // COARSE)
    height, width = (size // coarser // 2 * 2 for size in (the_formula.height, the_formula.width))
    sample = GeneratedFrames(replace(the_formula, height=height, width=width), FIRST_YEAR, STATISTICS)
    fields = sample.frames(np.arange(STATISTICS)).astype(np.float64)
    return fields.mean((0, 2, 3)).astype(np.float32), fields.std((0, 2, 3)).astype(np.float32)


def open_generated(samples: int = 0, classes: int = 0, resolution: int = 0, seed: int = 0) -> Weather:
    """The generated set of that many training frames on a grid of resolution x 1.5 resolution points.

    0 stands for the defaults: a year, all four classes, the published grid. Two classes are the two easiest to
    distinguish. The same on every rank.
    """
    height = resolution or HEIGHT
    the_formula = formula(classes, height, 3 * height // 2, seed)
    mean, std = statistics(the_formula)
    train = GeneratedFrames(the_formula, FIRST_YEAR, samples or SAMPLES)
    return Weather(
        name=f"generated-weather-{len(the_formula.classes)}x{height}",
        source=f"the formula of generated weather with seed {seed}",
        shape=(len(CHANNELS), height, the_formula.width),
        classes=the_formula.classes,
        mean=mean,
        std=std,
        target=TARGET_EASIEST if the_formula.classes == EASIEST else TARGET,
        fingerprint=fingerprint(the_formula, len(train)),
        train=train,
        validation=GeneratedFrames(the_formula, FIRST_YEAR + 1, validation_samples(len(train))),
        ceiling=ceiling(),
    )


def fingerprint(the_formula: Formula, samples: int) -> str:
    """SHA-256 (hexadecimal) over the formula, the number of samples, and the draws of the first year's events."""
    digest = hashlib.sha256(f"weather {VERSION} {asdict(the_formula)} {samples}\n".encode())
    the_plan = plan(the_formula.classes, the_formula.natural)
    for kind in Kind:
        digest.update(events(the_formula.seed, FIRST_YEAR, kind, the_plan).draws.astype("<f8").tobytes())
    return digest.hexdigest()
