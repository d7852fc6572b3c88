"""Processors and threads: divided over synthetic nodes, and really applied to the ranks of a job."""

import os
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcai.machine import affinity
from hpcai.machine.affinity import Placement, cgroup_cpus, cores, divide, place, ranges

Cpus = tuple[int, ...]


@pytest.fixture
def siblings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node of 8 cores of two hardware threads: processors c and c + 8 are core c."""
    monkeypatch.setattr(affinity, "core_of", lambda cpu: cpu % 8)


def placements(sets: list[Cpus], quota: int | None = None) -> list[Placement]:
    return [place(sets, index, quota) for index in range(len(sets))]


@pytest.mark.usefixtures("siblings")
def test_whole_cores_are_divided_and_get_one_thread_each() -> None:
    node = tuple(range(16))
    found = placements([node] * 3)
    assert [placement.cpus for placement in found] == [(0, 8, 1, 9), (2, 10, 3, 11, 4, 12), (5, 13, 6, 14, 7, 15)]
    assert [placement.threads for placement in found] == [2, 3, 3]
    assert [placement.sharers for placement in found] == [0, 0, 0]


@pytest.mark.usefixtures("siblings")
def test_ranks_bound_by_the_launcher_keep_their_processors() -> None:
    bound = [(0, 8), (1, 9), (2, 3, 10, 11)]
    found = placements(bound)
    assert [set(placement.cpus) for placement in found] == [set(cpus) for cpus in bound]
    assert [(placement.threads, placement.sharers) for placement in found] == [(1, 0), (1, 0), (2, 0)]


@pytest.mark.usefixtures("siblings")
def test_two_sockets_of_several_ranks_each_are_divided_separately() -> None:
    left, right = tuple(range(4)), tuple(range(4, 8))
    found = placements([left, right, left, right])
    assert [placement.cpus for placement in found] == [(0, 1), (4, 5), (2, 3), (6, 7)]


@pytest.mark.usefixtures("siblings")
def test_sets_that_overlap_are_counted_as_shared() -> None:
    found = placements([(0, 1, 2), (2, 3), (5,)])
    assert [placement.sharers for placement in found] == [1, 1, 0]
    assert [placement.threads for placement in found] == [3, 2, 1]


def test_more_ranks_than_cores_share_with_one_thread() -> None:
    found = placements([(0, 1)] * 5)
    assert {placement.threads for placement in found} == {1}
    assert Counter(placement.cpus for placement in found) == {(0,): 3, (1,): 2}
    assert sorted(placement.sharers for placement in found) == [1, 1, 2, 2, 2]


@pytest.mark.parametrize(("quota", "threads"), [(None, 4), (16, 4), (4, 2), (3, 1), (1, 1)])
def test_a_quota_limits_threads_not_processors(quota: int | None, threads: int) -> None:
    found = placements([tuple(range(8))] * 2, quota)
    assert [placement.threads for placement in found] == [threads] * 2
    assert [len(placement.cpus) for placement in found] == [4, 4]


@given(count=st.integers(1, 40), ranks=st.integers(1, 50), wide=st.booleans())
def test_equal_sets_are_divided_completely(count: int, ranks: int, wide: bool) -> None:
    units = [(core, core + count) if wide else (core,) for core in range(count)]
    slices = [divide(units, ranks, index) for index in range(ranks)]
    taken = Counter(cpu for cpus in slices for cpu in cpus)
    assert set(taken) == {cpu for unit in units for cpu in unit}
    assert all(set(unit) <= set(cpus) or not set(unit) & set(cpus) for cpus in slices for unit in units)
    assert max(taken.values()) - min(taken.values()) <= 1
    assert max(taken.values()) == 1 or ranks > count
    sizes = {len(cpus) // len(units[0]) for cpus in slices}
    assert max(sizes) - min(sizes) <= 1 and min(sizes) >= 1


@given(st.lists(st.frozensets(st.integers(0, 11), min_size=1), min_size=1, max_size=8), st.none() | st.integers(1, 8))
def test_a_rank_stays_within_the_processors_of_the_launcher(sets: list[frozenset[int]], quota: int | None) -> None:
    given_sets = [tuple(sorted(cpus)) for cpus in sets]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(affinity, "core_of", lambda cpu: cpu % 6)
        found = placements(given_sets, quota)
        assert all(1 <= placement.threads <= len(cores(placement.cpus)) for placement in found)
    for index, placement in enumerate(found):
        others = [other for other in found if other is not placement]
        assert placement.cpus and set(placement.cpus) <= sets[index]
        assert placement.sharers == sum(1 for other in others if set(other.cpus) & set(placement.cpus))
    assert quota is None or sum(placement.threads for placement in found) <= max(quota, len(sets))


def test_cores_of_this_machine_are_its_processors() -> None:
    own = affinity.own_cpus()
    assert sorted(cpu for core in cores(own) for cpu in core) == list(own)
    assert all(affinity.core_of(cpu) <= cpu for cpu in own)
    assert affinity.core_of(10**6) == 10**6


@pytest.mark.parametrize(
    ("text", "cpus"), [("max 100000\n", None), ("200000 100000\n", 2), ("150000 100000", 2), ("5000 100000", 1)]
)
def test_quota_of_the_control_group(tmp_path: Path, text: str, cpus: int | None) -> None:
    (tmp_path / "cpu.max").write_text(text)
    assert cgroup_cpus(tmp_path / "cpu.max") == cpus


@pytest.mark.parametrize("text", ["", "max", "a b"])
def test_a_quota_that_cannot_be_read_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "cpu.max").write_text(text)
    assert cgroup_cpus(tmp_path / "cpu.max") is None
    assert cgroup_cpus(tmp_path / "nothing") is None


@given(st.sets(st.integers(0, 60)))
def test_ranges_contain_exactly_the_numbers(numbers: set[int]) -> None:
    parts = [list(map(int, part.split("-"))) for part in ranges(list(numbers)).split(",") if part]
    named = [number for part in parts for number in range(part[0], part[-1] + 1)]
    assert named == sorted(numbers)
    assert all(later[0] > earlier[-1] + 1 for earlier, later in pairwise(parts))


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parallel(3)
def test_ranks_are_bound_and_thread_pools_sized_before_torch_is_imported() -> None:
    import sys

    from hpcai.comm import world as worlds

    world = worlds.join()
    before = {cpu for cpus in world.node.allgather(affinity.own_cpus()) for cpu in cpus}
    same = len(set(world.node.allgather(affinity.own_cpus()))) == 1
    placement = worlds.bind_to_processors(world)
    assert "torch" not in sys.modules
    assert sorted(os.sched_getaffinity(0)) == sorted(placement.cpus)
    assert {os.environ[name] for name in affinity.THREAD_VARIABLES} == {str(placement.threads)}
    everyone = world.node.allgather((placement.cpus, placement.threads, placement.sharers))
    assert {cpu for cpus, _, _ in everyone for cpu in cpus} == before
    if same and world.node.size <= len(cores(tuple(before))):
        assert sum(len(cpus) for cpus, _, _ in everyone) == len(before)
        assert {sharers for _, _, sharers in everyone} == {0}
    _check_threads(placement.threads)


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parallel(1)
def test_one_rank_takes_the_whole_node() -> None:
    from hpcai.comm import world as worlds

    world, own = worlds.join(), affinity.own_cpus()
    placement = worlds.bind_to_processors(world)
    if world.node.size == 1:
        quota = cgroup_cpus() or len(cores(own))
        assert sorted(placement.cpus) == list(own)
        assert (placement.threads, placement.sharers) == (min(quota, len(cores(own))), 0)
    _check_threads(placement.threads)


def _check_threads(threads: int) -> None:
    import torch

    from hpcai.machine import device

    device.prepare(torch.device("cpu"), threads)
    assert torch.get_num_threads() == threads
    settings = [line for line in torch.__config__.parallel_info().splitlines() if "get_max_threads()" in line]
    assert settings and {int(line.split(":")[1]) for line in settings} == {threads}
