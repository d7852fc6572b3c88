"""The coordinator's knowledge is bounded, and a reply has the best and the newest trials."""

import tracemalloc
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcai.search import trial_cache as cache_module
from hpcai.search.coordinator import Coordinator
from hpcai.search.lagged_trial_cache import LaggedTrialCache
from hpcai.search.messages import Ask, Claim, Result
from hpcai.search.search_rules import SearchRules
from hpcai.search.trial_cache import BEST_IN_REPLY, MOST_IN_REPLY, CachedTrial, TrialCache, selected

VALUES = st.lists(st.integers(0, 50), max_size=300)


def cache_of(values: Sequence[float], workers: int = 4) -> TrialCache:
    """Trials 1, 2, ... of which those with value 0 have failed."""
    cache = TrialCache(workers)
    for id_, value in enumerate(values, start=1):
        cache.add(1, id_, value, value > 0, b"%d" % id_)
    return cache


def ids(entries: Sequence[CachedTrial]) -> list[int]:
    return [entry.id for entry in entries]


@pytest.mark.parametrize("since", [0, 40, 120, 180, 280, 299, 300])
@pytest.mark.parametrize("seed", range(4))
def test_a_reply_has_all_or_the_best_and_the_newest(seed: int, since: int) -> None:
    values = Random(seed).choices(range(50), k=300)
    count, entries = cache_of(values).reply(9, since)
    new = {id_: values[id_ - 1] for id_ in range(since + 1, len(values) + 1)}
    assert count == len(values)
    assert ids(entries) == sorted(ids(entries)) and [int(entry.text) for entry in entries] == ids(entries)
    if len(new) <= MOST_IN_REPLY:
        assert ids(entries) == [*new]
        return
    best = sorted((id_ for id_ in range(1, len(values) + 1) if values[id_ - 1]), key=lambda id_: -values[id_ - 1])
    best_in_reply = [id_ for id_ in best[: cache_module.KEPT_BEST] if id_ in new][:BEST_IN_REPLY]
    assert len(entries) == MOST_IN_REPLY and best_in_reply
    assert {*best_in_reply} <= {*ids(entries)} >= {*range(len(values) - 47, len(values) + 1)}


def test_old_trials_are_in_the_reply_if_they_were_good() -> None:
    cache = cache_of([100, 99, 98, *[1 + Random(1).random() for _ in range(5000)]])
    _, entries = cache.reply(1, 0)
    assert ids(entries)[:3] == [1, 2, 3] and ids(entries)[-48:] == [*range(5003 - 47, 5004)]
    assert len(entries) == MOST_IN_REPLY
    _, later = cache.reply(1, 3)
    assert len(later) == MOST_IN_REPLY and not {1, 2, 3} & {*ids(later)}


def test_failed_trials_are_in_the_reply_but_are_no_parents() -> None:
    cache = cache_of([0] * 200 + [0.5] * 3, workers=1)
    assert {201, 202, 203} <= cache.needed()
    assert ids(cache.reply(1, 0)[1])[-3:] == [201, 202, 203]
    more = cache_of([0.5] * 3 + [0] * 2000, workers=1)
    assert {1, 2, 3} <= more.needed() and 4 not in more.needed()
    assert ids(more.reply(1, 0)[1])[:3] == [1, 2, 3]


@pytest.mark.parametrize("workers", [1, 50, 12_500])
def test_weights_of_the_best_and_of_the_newest_are_needed(workers: int) -> None:
    values = Random(2).sample(range(1, 10_000), 3000)
    wanted = cache_of(values, workers).needed()
    newest = min(4 * workers + 64, cache_module.KEPT_NEWEST)
    best = sorted(range(1, 3001), key=lambda id_: -values[id_ - 1])[:64]
    assert wanted == {*best, *range(3001 - newest, 3001)}
    assert cache_of(values[:5], workers).needed() == {1, 2, 3, 4, 5}


@given(st.lists(VALUES, min_size=1, max_size=3))
def test_selecting_from_selected_parts_equals_selecting_from_all(parts: list[list[int]]) -> None:
    flat = [(part, value) for part, values in enumerate(parts) for value in values]
    entries = [CachedTrial(-value, id_, id_, value > 0, b"") for id_, (_, value) in enumerate(flat)]
    split = [[entry for entry, (at, _) in zip(entries, flat, strict=True) if at == part] for part in range(len(parts))]
    assert selected([entry for part in split for entry in selected(part)]) == selected(entries)
    assert len(selected(entries)) == min(len(entries), MOST_IN_REPLY)


def lagged(workers: int, lag: int, rounds: int, value: int = 1) -> LaggedTrialCache:
    known = LaggedTrialCache(workers, lag)
    for round_ in range(1, rounds + 1):
        for worker in range(workers):
            id_ = (round_ - 1) * workers + worker + 1
            known.add(round_, id_, value * id_, True, b"%d" % id_)
    return known


def test_a_round_knows_the_rounds_before_its_lag() -> None:
    known = lagged(3, 1, 5)
    assert [known.awaited(round_, 0) for round_ in (1, 2, 3, 7, 8, 9)] == [0, 0, 0, 0, 6, 7]
    assert known.reply(1, 0) == known.reply(2, 0) == (0, [])
    until, entries = known.reply(7, 12)
    assert (until, ids(entries)) == (15, [13, 14, 15])
    assert ids(known.reply(7, 9)[1]) == [10, 11, 12, 13, 14, 15]
    assert known.reply(6, 12) == (12, [])


def test_a_round_is_settled_by_its_last_trial_or_by_a_leaving_worker() -> None:
    known = lagged(3, 1, 2)
    assert [*known.add(3, 7, 0.5, True, b"7")] == [*known.add(3, 9, 0.5, True, b"9")] == []
    assert [*known.add(4, 10, 0.5, True, b"10")] == []
    assert [*known.add(3, 8, 0.5, True, b"8")] == [3]
    known.leave(1, 3)
    assert known.settled == 3
    assert [*known.add(4, 12, 0.5, True, b"12")] == [4]
    assert (known.reply(6, 9)[0], ids(known.reply(6, 9)[1])) == (11, [10, 12])
    known.leave(0, 4)
    known.leave(2, 4)
    assert known.settled == 4


@pytest.mark.parametrize("ordered", [False, True])
def test_memory_does_not_grow_with_the_trials(ordered: bool) -> None:
    def fill(begin: int, end: int) -> None:
        for id_ in range(begin, end):
            known.add((id_ - 1) // 8 + 1, id_, id_ % 1000, True, b"%d" % id_ + b" " * 2000)

    known = LaggedTrialCache(8, 2) if ordered else TrialCache(8)
    fill(1, 8 * 400 + 1)
    tracemalloc.start()
    try:
        fill(8 * 400 + 1, 8 * 1200 + 1)
        before = tracemalloc.get_traced_memory()[0]
        fill(8 * 1200 + 1, 8 * 2000 + 1)
        assert tracemalloc.get_traced_memory()[0] - before < 200_000
    finally:
        tracemalloc.stop()


def test_the_coordinator_keeps_only_the_networks_of_all_trials() -> None:
    def fill(begin: int, end: int) -> None:
        for id_ in range(begin, end):
            round_, worker = (id_ - 1) // 8 + 1, (id_ - 1) % 8
            entry = b'{"chain":%d,%s}' % (id_, b"m" * 2000)
            messages = (
                Ask(worker, round_, id_ - 1),
                Claim(worker, round_, (f"{id_:064}",)),
                Result(worker, id_, round_, 0.5, True),
            )
            for message in messages:
                [*coordinator.handle(message, 0.0, (entry, b""))]

    coordinator = Coordinator(SearchRules(8), lambda result, lines: None)
    fill(1, 800)
    tracemalloc.start()
    try:
        fill(800, 2000)
        before = tracemalloc.get_traced_memory()[0]
        fill(2000, 2800)
        assert tracemalloc.get_traced_memory()[0] - before < 800 * 500
    finally:
        tracemalloc.stop()
