"""The events of a year: which there are, where they move, how strong they are; drawn anew by any rank.

Every kind of event has so many slots, and a slot one event after another with pauses between. Slots of a kind take
turns north and south of the equator, and keep to longitudes of their own that drift with the flow.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from hpcai.data.philox import Purpose, stream
from hpcai.data.weather.layout import ATMOSPHERIC_RIVER, FRAMES, TROPICAL_DEPRESSION
from hpcai.data.weather.random_waves import uniform

EVENT_PART = 3  # and one more for each kind: of the draws' streams
NATURAL = 384  # rows from which on storms have their natural size and shares
Numbers = NDArray[np.float64]


class Kind(IntEnum):
    """Kinds of events; the last two are not extreme weather, but resemble it in some channels."""

    TROPICAL = 0
    EXTRATROPICAL = 1
    RIVER = 2
    HIGH = 3
    CLUSTER = 4


@dataclass(frozen=True)
class EventBehaviour:
    """Behaviour of the events of a kind.

    lasts: frames; latitude: range of the first latitudes, degrees; polewards: degrees over the whole life; eastwards:
    degrees a frame; begin: longitude of the first slot's sector.
    """

    lasts: int
    latitude: tuple[float, float]
    polewards: float
    eastwards: float
    begin: float


HABITS = {
    Kind.TROPICAL: EventBehaviour(36, (11, 19), 6, -1.2, 0),
    Kind.EXTRATROPICAL: EventBehaviour(24, (42, 52), 7, 2.4, 0),
    Kind.RIVER: EventBehaviour(18, (28, 36), 3, 2.4, 45),
    Kind.HIGH: EventBehaviour(28, (36, 48), 2, 2.4, 90),
    Kind.CLUSTER: EventBehaviour(20, (8, 20), 3, -1.2, 90),
}


@dataclass(frozen=True)
class Plan:
    """Composition of a set: classes, and the mean number of events of each kind in a frame.

    weak: share of tropical events that stay below a cyclone's wind; least: initial wind of tropical events, m/s.
    """

    classes: tuple[int, ...]
    events: tuple[float, float, float, float, float]
    weak: float
    least: float

    def slots(self, kind: Kind) -> int:
        """Number of slots of a kind: as many north as south, in use at most three quarters of the time."""
        return 2 * int(np.ceil(self.events[kind] / 1.5))


def plan(classes: tuple[int, ...], natural: bool) -> Plan:
    """Composition with natural shares, 0.09, 0.39, 0.47 and 0.05, or with equal ones."""
    rivers = ATMOSPHERIC_RIVER in classes
    weak, least = ((0.12, 13.0) if natural else (0.34, 11.5)) if TROPICAL_DEPRESSION in classes else (0.0, 24.0)
    if natural:
        return Plan(classes, (2.6, 2.5, 0.25 * rivers, 1.5, 1.5), weak, least)
    return Plan(classes, (2.5, 1.25, 1.25, 1.25, 1.25) if rivers else (2.5, 2.5, 0, 1.5, 1.5), weak, least)


@dataclass(frozen=True, eq=False)
class Events:
    """The events of a kind in a year, one entry each: first frame, frames, sector and six more draws in (0, 1)."""

    kind: Kind
    number: NDArray[np.int64]
    slot: NDArray[np.int64]
    start: Numbers
    lasts: Numbers
    draws: Numbers


@dataclass(frozen=True)
class Event:
    """An event at one time: position in degrees, age from 0 to 1, and draws: strength, size, shape, and three more."""

    kind: Kind
    number: int
    latitude: float
    longitude: float
    age: float
    draws: tuple[float, ...]

    @property
    def north(self) -> float:
        """1 in the northern, -1 in the southern hemisphere."""
        return 1.0 if self.latitude > 0 else -1.0


def events(seed: int, year: int, kind: Kind, the_plan: Plan) -> Events:
    """All events of a kind in a year; the same on every rank."""
    slots, lasts = the_plan.slots(kind), HABITS[kind].lasts
    cycle = lasts * 0.85 * slots / max(the_plan.events[kind], 1e-9)
    cycles = int(np.ceil(FRAMES / cycle)) + 2 if slots else 0
    number = np.arange(slots * cycles)
    slot, turn = number % max(slots, 1), number // max(slots, 1)
    counters = (number[:, None] * 16 + np.arange(10)[None, :]).astype(np.int64)
    draws = uniform(seed, stream(Purpose.GENERATED_WEATHER, year, EVENT_PART + kind), counters)
    phase = uniform(seed, stream(Purpose.GENERATED_WEATHER, year, EVENT_PART + kind), (1 << 32) + slot)
    length = lasts * (0.7 + 0.3 * draws[:, 0])
    start = (turn - phase) * cycle + draws[:, 1] * (cycle - length)
    return Events(kind, number, slot, start, length, draws[:, 2:])


def active(year: Events, the_plan: Plan, t: int) -> list[Event]:
    """The events in frame t."""
    age = (t - year.start) / year.lasts
    habit, sector = HABITS[year.kind], 360 / max(the_plan.slots(year.kind) // 2, 1)
    there = np.flatnonzero((age >= 0) & (age < 1))
    return [_event(year, int(e), float(age[e]), habit, sector, t) for e in there]


def _event(year: Events, e: int, age: float, habit: EventBehaviour, sector: float, t: int) -> Event:
    along, across, *others = (float(draw) for draw in year.draws[e])
    slot = int(year.slot[e])
    south, north = habit.latitude
    latitude = south + (north - south) * across + habit.polewards * age
    longitude = habit.begin + sector * (slot // 2 + 0.3 * along) + 40 * (slot % 2) + habit.eastwards * t
    return Event(year.kind, int(year.number[e]), latitude * (1 - 2 * (slot % 2)), longitude % 360, age, tuple(others))
