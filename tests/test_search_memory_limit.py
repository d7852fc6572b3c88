"""A network fits if its estimated memory does, corrected by measurements of trials."""

import pytest

from hpcai import estimate, networks
from hpcai.estimate import Facts
from hpcai.inputfile.keys import keys_of
from hpcai.networks.morphism import Widen
from hpcai.search.memory_limit import MemoryLimit

SETTINGS = {key.name: key.defaults.get("nas", key.default) for key in keys_of("nas")}
SETTINGS |= {"GROUPS": 1, "DEGREE": 1, "BATCH": 8}
FACTS = Facts(data_bytes=0, samples=100, image_bytes=64)
GRAPH = networks.build("resnet8", (8, 8), 1, 4, "v1")
LARGER = Widen("stage3_block1_conv1", 4096).apply(GRAPH)
BASELINE = 10**9


def needed(batch: int, graph: networks.Graph = GRAPH) -> int:
    return estimate.total(estimate.memory(graph, {**SETTINGS, "BATCH": batch}, FACTS))


def limit(free: int, corrects: bool = True) -> MemoryLimit:
    return MemoryLimit(SETTINGS, FACTS, BASELINE, free, corrects)


def test_the_plan_is_the_estimate_plus_the_memory_before() -> None:
    assert limit(0).planned(GRAPH, 8) == BASELINE + needed(8)
    assert limit(0).planned(GRAPH, 16) == BASELINE + needed(16) > BASELINE + needed(8)
    assert limit(0).planned(LARGER, 8) == BASELINE + needed(8, LARGER) > BASELINE + needed(8)


@pytest.mark.parametrize("corrects", [True, False])
def test_networks_that_fit_need_at_most_the_free_memory(corrects: bool) -> None:
    exact = limit(needed(16), corrects)
    assert exact.fits(GRAPH, 16) and exact.fits(GRAPH, 8) and not exact.fits(GRAPH, 32)
    assert not exact.fits(LARGER, 16)
    assert not limit(needed(16) - 1, corrects).fits(GRAPH, 16)


def test_a_trial_that_needed_more_raises_all_later_estimates() -> None:
    found = limit(2 * needed(8))
    planned = found.planned(GRAPH, 8)
    found.note_peak(BASELINE + 2 * needed(8), planned)
    assert found.fits(GRAPH, 8)
    found.note_peak(BASELINE + 2 * needed(8) + 8, planned)
    assert not found.fits(GRAPH, 8)
    assert found.planned(GRAPH, 8) == planned


def test_estimates_are_never_corrected_downwards() -> None:
    found = limit(needed(8))
    found.note_peak(BASELINE, found.planned(GRAPH, 8))
    assert not found.fits(GRAPH, 16)
    found.note_peak(BASELINE + 4 * needed(8), found.planned(GRAPH, 8))
    found.note_peak(BASELINE, found.planned(GRAPH, 8))
    assert not found.fits(GRAPH, 8)


def test_a_peak_is_compared_with_the_largest_plan_so_far() -> None:
    """The peak of a process does not fall when a smaller network follows a larger one."""
    found = limit(needed(16))
    found.note_peak(found.planned(LARGER, 8), found.planned(LARGER, 8))
    found.note_peak(found.planned(LARGER, 8), found.planned(GRAPH, 8))
    assert found.fits(GRAPH, 16)


def test_measurements_are_ignored_in_repeatable_runs() -> None:
    found = limit(needed(8), corrects=False)
    found.note_peak(BASELINE + 100 * needed(8), found.planned(GRAPH, 8))
    assert found.fits(GRAPH, 8)
