"""What fits is what is estimated to, corrected by what trials were measured to need."""

import pytest

from hpcai import estimate, networks
from hpcai.estimate import Facts
from hpcai.inputfile.keys import keys_of
from hpcai.networks.morphism import Widen
from hpcai.search.memory_limit import Room

SETTINGS = {key.name: key.defaults.get("nas", key.default) for key in keys_of("nas")}
SETTINGS |= {"GROUPS": 1, "DEGREE": 1, "BATCH": 8}
FACTS = Facts(data_bytes=0, samples=100, picture_bytes=64)
GRAPH = networks.build("resnet8", (8, 8), 1, 4, "v1")
LARGER = Widen("stage3_block1_conv1", 4096).apply(GRAPH)
BASELINE = 10**9


def needed(batch: int, graph: networks.Graph = GRAPH) -> int:
    return estimate.total(estimate.memory(graph, {**SETTINGS, "BATCH": batch}, FACTS))


def room(free: int, measures: bool = True) -> Room:
    return Room(SETTINGS, FACTS, BASELINE, free, measures)


def test_what_is_planned_is_the_estimate_and_what_was_there_before() -> None:
    assert room(0).planned(GRAPH, 8) == BASELINE + needed(8)
    assert room(0).planned(GRAPH, 16) == BASELINE + needed(16) > BASELINE + needed(8)
    assert room(0).planned(LARGER, 8) == BASELINE + needed(8, LARGER) > BASELINE + needed(8)


@pytest.mark.parametrize("measures", [True, False])
def test_what_fits_needs_no_more_than_is_free(measures: bool) -> None:
    exact = room(needed(16), measures)
    assert exact.fits(GRAPH, 16) and exact.fits(GRAPH, 8) and not exact.fits(GRAPH, 32)
    assert not exact.fits(LARGER, 16)
    assert not room(needed(16) - 1, measures).fits(GRAPH, 16)


def test_a_trial_that_needed_more_corrects_all_later_estimates() -> None:
    found = room(2 * needed(8))
    planned = found.planned(GRAPH, 8)
    found.measured(BASELINE + 2 * needed(8), planned)
    assert found.fits(GRAPH, 8)
    found.measured(BASELINE + 2 * needed(8) + 8, planned)
    assert not found.fits(GRAPH, 8)
    assert found.planned(GRAPH, 8) == planned


def test_estimates_are_never_corrected_downwards() -> None:
    found = room(needed(8))
    found.measured(BASELINE, found.planned(GRAPH, 8))
    assert not found.fits(GRAPH, 16)
    found.measured(BASELINE + 4 * needed(8), found.planned(GRAPH, 8))
    found.measured(BASELINE, found.planned(GRAPH, 8))
    assert not found.fits(GRAPH, 8)


def test_a_peak_is_compared_with_the_largest_plan_so_far() -> None:
    """The peak of a process does not fall when a smaller network follows a larger one."""
    found = room(needed(16))
    found.measured(found.planned(LARGER, 8), found.planned(LARGER, 8))
    found.measured(found.planned(LARGER, 8), found.planned(GRAPH, 8))
    assert found.fits(GRAPH, 16)


def test_what_was_measured_does_not_matter_where_runs_are_to_repeat() -> None:
    found = room(needed(8), measures=False)
    found.measured(BASELINE + 100 * needed(8), found.planned(GRAPH, 8))
    assert found.fits(GRAPH, 8)
