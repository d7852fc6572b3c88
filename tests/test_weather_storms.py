"""Events of a year: the same on every machine, moving, with the right winds; boxes in whole pixels."""

import hashlib

import numpy as np
import pytest

from hpcai.data.weather import box_labels, storms, vortices
from hpcai.data.weather.layout import CHANNELS, FRAMES, PSL, UBOT, VBOT
from hpcai.data.weather.tracks import HABITS, Event, Kind, active, events, plan

NATURAL = plan((0, 1, 2, 3), natural=True)
EQUAL = plan((0, 1, 2, 3), natural=False)
DRAWS = "c593bcaf383f85d734e14f938ed3fbd147e2ee6276fd8ec2c37e4e78b6d964a1"


def test_every_machine_draws_these_events():
    drawn = b"".join(events(7, 1979, kind, NATURAL).draws.astype("<f8").tobytes() for kind in Kind)
    assert hashlib.sha256(drawn).hexdigest() == DRAWS


@pytest.mark.parametrize("the_plan", [NATURAL, EQUAL, plan((1, 2), natural=False)])
def test_the_number_of_events_is_the_planned_one(the_plan):
    for kind in Kind:
        year = events(3, 1980, kind, the_plan)
        shown = np.mean([len(active(year, the_plan, t)) for t in range(0, FRAMES, 7)]) if len(year.number) else 0
        assert shown == pytest.approx(the_plan.events[kind], rel=0.25), kind


def test_events_move_as_their_kind_does_and_stay_in_their_hemisphere():
    for kind in Kind:
        year, habit = events(1, 1979, kind, EQUAL), HABITS[kind]
        now, later = ([active(year, EQUAL, t + shift) for t in range(0, FRAMES, 50)] for shift in (0, 4))
        both = zip(now, later, strict=True)
        pairs = [(a, b) for before, after in both for a in before for b in after if a.number == b.number]
        assert len(pairs) > 20
        for before, after in pairs:
            east = (after.longitude - before.longitude + 180) % 360 - 180
            assert east == pytest.approx(4 * habit.eastwards, abs=1e-6)
            assert after.north == before.north and abs(after.latitude) > abs(before.latitude)


def event(kind: Kind, latitude: float = 15.0, strength: float = 0.7) -> Event:
    return Event(kind, 0, latitude, 180.0, 0.5, (strength, 0.5, 0.5, 0.5, 0.5, 0.5))


@pytest.mark.parametrize("latitude", [15.0, -15.0])
def test_a_cyclone_rotates_around_its_low_with_the_right_wind(latitude):
    calm = np.zeros((len(CHANNELS), 768, 1152), np.float32)
    calm[PSL] = 101_000
    made = event(Kind.TROPICAL, latitude)
    storm = storms.tropical(made, NATURAL, 1.0)
    vortices.paint(calm, storm.place, storm.hollow, storm.wet, storm.warmth)
    row, column = round((latitude + 90) * 768 / 180 - 0.5), 576
    low = np.unravel_index(calm[PSL].argmin(), calm[PSL].shape)
    assert abs(low[0] - row) <= 1 and abs(low[1] - column) <= 1
    strength = 26 + 26 * (0.7 - NATURAL.weak) / (1 - NATURAL.weak)
    assert np.hypot(calm[UBOT], calm[VBOT]).max() == pytest.approx(strength, rel=0.15)
    assert np.sign(calm[VBOT, row, column + 8]) == np.sign(latitude)  # east of the centre: polewards
    ymin, xmin, ymax, xmax = box_labels.bounds(storm, 768, 1152)
    assert abs((ymin + ymax) / 2 - row) <= 1 and abs((xmin + xmax) / 2 - column) <= 1
    assert ymax - ymin > 1.2 * (xmax - xmin)


def test_wind_profiles_by_holland_and_willoughby():
    """Deeper storms are stronger, stronger ones narrower, and the formula agrees with a storm computed by hand."""
    assert storms.holland_b(3000, 20, 5) == pytest.approx(-0.0396 + 0.3 - 0.28 + 0.15 * 5 ** (0.6 * (1 - 30 / 215)) + 1)
    assert storms.depth_of(50, 20) > storms.depth_of(30, 20) > 0
    assert storms.strongest_radius(40, 20) == pytest.approx(46_400 * np.exp(-0.62 + 0.338))


@pytest.mark.parametrize(
    ("box", "part"),
    [
        ((10, 20, 30, 50), (10, 20, 30, 50)),
        ((10, 130, 30, 150), (10, 130, 30, 144)),
        ((10, 138, 30, 158), (10, 0, 30, 14)),
        ((10, -14, 30, 6), (10, 130, 30, 144)),
        ((-3, 144, 20, 160), (0, 0, 20, 16)),
        ((80, 0, 99, 300), (80, 0, 96, 144)),
        ((80, 134, 99, 154), (80, 134, 96, 144)),
    ],
)
def test_boxes_are_cut_at_longitude_0_and_never_inverted(box, part):
    assert box_labels.cut(box, 96, 144) == part


def test_dropped_and_added_labels_give_the_ceiling():
    """A detector that finds exactly every event has the average precision of the ceiling."""
    kept = extra = 0
    frames, found = 3000, [((4, 10, 30, 40, 1), 3), ((50, 90, 70, 130, 2), 8)]
    for t in range(frames):
        rows = box_labels.labels(found, 5, 1979 + t // FRAMES, t % FRAMES, 96, 144)
        used = [tuple(row) for row in rows.tolist() if row[4] >= 0]
        assert [row[4] >= 0 for row in rows] == [True] * len(used) + [False] * (15 - len(used))
        kept += sum(row in [box for box, _ in found] for row in used)
        extra += sum(row not in [box for box, _ in found] for row in used)
        for row in used:
            assert row in [box for box, _ in found] or max(box_labels.overlap(row, box) for box, _ in found) <= 0.1
    precision, recall = kept / (2 * frames), kept / (kept + extra)
    assert precision * recall == pytest.approx(box_labels.ceiling(), abs=0.012)
    assert box_labels.ceiling() == pytest.approx(0.9216)
