"""Parameters of a storm, computed from an event of a track."""

from dataclasses import dataclass

import numpy as np

from hpcai.data.weather.tracks import Event, Kind, Plan
from hpcai.data.weather.zonal_means import DENSITY, SPIN

SPEED = 5.0  # m/s at which tropical storms move
GROUND = 0.85  # wind near the ground over gradient wind


@dataclass(frozen=True)
class Storm:
    """Arguments of `vortices.paint`, and half the sides of the box, m, east and north."""

    place: tuple[float, float, float, float, float]
    hollow: tuple[float, ...]
    wet: tuple[float, float, float, float]
    warmth: tuple[float, ...]
    half: tuple[float, float]

    @property
    def core(self) -> float:
        """Radius of the strongest wind, m."""
        return self.hollow[2] * self.place[3]


def holland_b(depth: float, latitude: float, speed: float) -> float:
    """Holland's B of a storm of steady depth (Pa), moving at a speed (m/s).

    Source: Holland (2008), Monthly Weather Review 136, 3432-3445: b_s, and the exponent x in it.
    """
    hectopascals = depth / 100
    power = 0.6 * (1 - hectopascals / 215)
    return float(-4.4e-5 * hectopascals**2 + 0.01 * hectopascals - 0.014 * abs(latitude) + 0.15 * speed**power + 1.0)


def depth_of(wind: float, latitude: float) -> float:
    """Depth in Pa of a storm with that largest wind in m/s: v^2 = B depth / (density e), Holland (2008)."""
    depth = 1000.0
    for _ in range(8):
        depth = DENSITY * np.e * wind**2 / holland_b(depth, latitude, SPEED)
    return float(depth)


def strongest_radius(wind: float, latitude: float) -> float:
    """Radius of the strongest wind, m.

    Source: Willoughby, Darling and Rahn (2006), Monthly Weather Review 134, equation 7a.
    """
    return float(46_400 * np.exp(-0.0155 * wind + 0.0169 * abs(latitude)))


def storm(event: Event, plan: Plan, enlarged: float) -> Storm:
    """The storm of an event at its age."""
    make = {
        Kind.TROPICAL: tropical,
        Kind.EXTRATROPICAL: extratropical,
        Kind.HIGH: high,
        Kind.CLUSTER: cluster,
    }[event.kind]
    return make(event, plan, enlarged)


def tropical(event: Event, plan: Plan, enlarged: float) -> Storm:
    """A tropical depression or cyclone: it deepens and decays; box and cloud are taller than wide."""
    strength, size, _ = event.draws[:3]
    weak = strength < plan.weak
    peak = 13.5 if weak else 26 + 26 * (strength - plan.weak) / (1 - plan.weak)
    wind = min(plan.least, peak) + max(peak - plan.least, 0) * grown(event, 0, 5)
    depth, radius = depth_of(wind / GROUND, event.latitude), strongest_radius(wind, event.latitude)
    b, scale = holland_b(depth, event.latitude, SPEED), 0.8 + 0.4 * size
    power = 0.5 + wind / 40
    return Storm(
        (event.latitude, event.longitude, 1.1e6 * scale, enlarged, 0.88),
        (1.0, depth, radius * scale, b, coriolis(event), 0.35, 0.3),
        (20 * power, 3.6e5 * scale, 2.0, 0.4),
        (3.0 * power, 4.0 * power, 0.0, 0.0, 0.01),
        (4.6e5 * scale, 5.9e5 * scale),
    )


def extratropical(event: Event, plan: Plan, enlarged: float) -> Storm:
    """An extratropical cyclone: wide, with a tilted contrast of air masses and comma-shaped moisture."""
    strength, size, tilt = event.draws[:3]
    scale = 0.8 + 0.4 * size
    power = (0.75 + 0.5 * strength) * grown(event, 0.5, 3)
    return Storm(
        (event.latitude, event.longitude, 1.25e6 * scale, enlarged, 1.25),
        (1.0, 4400 * power * scale**2, 3.8e5 * scale, 0.0, coriolis(event), 0.3, 0.4),
        (16 * power, 5.0e5 * scale, 1.0, 0.15),
        (-2.0 * power, 1.0 * power, 6 * power, 0.5 + 0.6 * tilt, -0.05),
        (7.3e5 * scale, 4.7e5 * scale),
    )


def high(event: Event, plan: Plan, enlarged: float) -> Storm:
    """A high: a weaker extratropical cyclone with the opposite sign."""
    low, share = extratropical(event, plan, enlarged), grown(event, 0, 5)
    hollow = (-1.0, 0.5 * share * low.hollow[1], *low.hollow[2:])
    wet, warmth = (
        (0.7 * share * low.wet[0], *low.wet[1:]),
        (*(share * low.warmth[i] for i in range(3)), *low.warmth[3:]),
    )
    return Storm(low.place, hollow, wet, warmth, (0, 0))


def cluster(event: Event, plan: Plan, enlarged: float) -> Storm:
    """A cluster of thunderstorms: cloud and rain without wind or depth."""
    strength, size, _ = event.draws[:3]
    scale, power = 0.8 + 0.4 * size, (0.6 + 0.6 * strength) * grown(event, 0, 5)
    return Storm(
        (event.latitude, event.longitude, 9e5 * scale, enlarged, 0.88),
        (1.0, 0.0, 1e5, 0.0, coriolis(event), 0.0, 1.0),
        (20 * power, 3.2e5 * scale, 0.0, 1.0),
        (0.0, 1.0 * power, 0.0, 0.0, 0.0),
        (0, 0),
    )


def grown(event: Event, least: float, speed: float) -> float:
    """How much of its strength an event has at its age: from `least` to 1, and back at the end."""
    return min(1.0, least + speed * min(event.age, 1 - event.age))


def coriolis(event: Event) -> float:
    """Coriolis parameter at the centre, without sign, 1/s."""
    return float(SPIN * abs(np.sin(np.radians(event.latitude))))
