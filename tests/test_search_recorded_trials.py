"""A recorded search is repeated at any speed; and it cannot hang."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_workers import HYPERPARAMETERS, Search

from hpcai.search.messages import RecordedTrial
from hpcai.search.search_rules import SearchRules

Json = dict[str, Any]
SEEDS = st.integers(0, 10**6)


def history(workers: int, seed: int, trials: int = 40) -> dict[int, Json]:
    """A search in which every worker knew all returned trials, some workers many times as fast as others."""
    return {trial["id"]: trial for trial in Search(SearchRules(workers, trials=trials), seed).run().history}


def replayed(recorded: dict[int, Json], workers: int, seed: int, retires: int = 0, **limits: int) -> Search:
    """A search that runs these trials again."""
    trials = {
        id_: RecordedTrial(id_, trial["worker"], trial["round"], trial["parent"], (), (), HYPERPARAMETERS)
        for id_, trial in recorded.items()
    }
    search = Search(SearchRules(workers, **limits, recorded=trials), seed, retires=retires)
    search.networks_of = {id_: trial["network"] for id_, trial in recorded.items()}
    return search


def again(recorded: dict[int, Json], workers: int, seed: int, retires: int = 0, **limits: int) -> Search:
    """The same repeated at other speeds; parents must have been returned, with their weights."""
    search = replayed(recorded, workers, seed, retires, **limits)
    back: set[int] = set()
    while search.move():
        assert {trial["parent"] for trial in search.history[len(back) :]} <= back | {None}
        back = {trial["id"] for trial in search.history}
        given = [trial for one in search.workers if not one.left for trial in (one.next, one.running) if trial]
        assert {trial["parent"] for trial in given} <= {*search.files, None}
    return search


@settings(max_examples=50)
@given(workers=st.integers(1, 6), seeds=st.tuples(SEEDS, SEEDS), limited=st.booleans())
def test_all_recorded_trials_are_repeated(workers: int, seeds: tuple[int, int], limited: bool) -> None:
    recorded = history(workers, seeds[0])
    search = again(recorded, workers, seeds[1], trials=40 * limited)
    facts = ("id", "worker", "round", "parent", "network")
    assert {trial["id"]: [trial[name] for name in facts] for trial in search.history} == {
        id_: [trial[name] for name in facts] for id_, trial in recorded.items()
    }
    assert search.coordinator.counts.ended_by == "trials" and all(worker.ended for worker in search.workers)
    assert search.coordinator.counts.granted == len(recorded) == 40
    assert not search.coordinator.needed() and not search.files


def test_a_recorded_trial_may_descend_from_a_larger_number() -> None:
    """The test above includes this case."""
    descents = [(id_, trial["parent"] or 0) for id_, trial in history(4, 2).items()]
    assert any(parent > id_ for id_, parent in descents)


@settings(max_examples=50)
@given(workers=st.integers(1, 6), seeds=st.tuples(SEEDS, SEEDS), trials=st.integers(0, 39), rounds=st.integers(0, 5))
def test_limits_hold_and_no_worker_waits_for_excluded_trials(
    workers: int, seeds: tuple[int, int], trials: int, rounds: int
) -> None:
    recorded = history(workers, seeds[0])
    search = again(recorded, workers, seeds[1], trials=trials, rounds=rounds)
    tried = {trial["id"] for trial in search.history}
    assert all(worker.ended for worker in search.workers)
    if not rounds:
        assert tried == {*[*recorded][: trials or None]}
    assert len(tried) <= (trials or 40) and max(recorded[id_]["round"] for id_ in tried) <= (rounds or 40)


@settings(max_examples=50)
@given(workers=st.integers(2, 6), seeds=st.tuples(SEEDS, SEEDS), retires=st.integers(1, 3))
def test_a_leaving_worker_prevents_only_its_descendants(workers: int, seeds: tuple[int, int], retires: int) -> None:
    recorded = history(workers, seeds[0])
    search = again(recorded, workers, seeds[1], retires)
    assert all(worker.ended or worker.left for worker in search.workers)
    tried = {trial["id"] for trial in search.history}
    for worker in search.workers:
        own = [trial for trial in recorded.values() if trial["worker"] == worker.index]
        first = next((trial for trial in own if trial["id"] not in tried), None)
        if first and not worker.left:
            assert first["parent"] not in tried


@pytest.mark.parametrize("seed", range(5))
def test_a_parent_that_fails_this_time_ends_its_descendants_only(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = history(4, seed)
    parents = Counter(trial["parent"] for trial in recorded.values() if trial["parent"])
    fails = max(parents, key=lambda id_: (parents[id_], id_))
    monkeypatch.setattr("simulated_workers.drawn", lambda *what: what != ("fails", recorded[fails]["network"]))
    search = replayed(recorded, 4, seed + 100).run()
    tried = {trial["id"] for trial in search.history}
    assert search.forgone > 0 and fails in tried and all(worker.ended for worker in search.workers)
    assert all(recorded[id_]["parent"] in tried | {None} for id_ in tried)
    assert not [id_ for id_ in tried if recorded[id_]["parent"] == fails]
    assert search.coordinator.counts.granted == len(tried)


def test_a_history_with_a_gap_is_repeated_up_to_the_gap() -> None:
    recorded = history(3, 4)
    gone = min(id_ for id_, trial in recorded.items() if trial["round"] == 3)
    del recorded[gone]
    search = again(recorded, 3, 5)
    tried = {trial["id"] for trial in search.history}
    assert all(worker.ended for worker in search.workers)
    assert not [id_ for id_ in tried if recorded[id_]["parent"] == gone]
    assert max(trial["round"] for trial in search.history if trial["worker"] == (gone - 1) % 3) == 2


def test_an_empty_record_ends_at_once() -> None:
    search = Search(SearchRules(2, recorded={})).run()
    assert not search.history and search.coordinator.counts.ended_by == "trials"
