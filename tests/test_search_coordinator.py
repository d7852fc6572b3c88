"""The coordinator of workers with any timing: it grants no trial twice, and loses none."""

import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled_parameters import one_in
from simulated_workers import Search

from hpcai.search.coordinator import Coordinator
from hpcai.search.messages import NOTED, Claim, Forgo, Noted, Request, Result, decoded_request
from hpcai.search.search_rules import SearchRules

SEEDS = st.integers(0, 10**6)
LINES = (b"{}", b"{}")
MODES = st.one_of(st.none(), st.integers(1, 3))  # LAG


def nothing(*words: object) -> None:
    """Records nothing."""


def accounts_hold(search: Search) -> None:
    """Every granted trial is running, has returned or was lost, and no network was tried twice."""
    counts, returned = search.coordinator.counts, [trial["id"] for trial in search.history]
    assert len(search.given) == counts.granted == counts.returned + search.coordinator.running + len(search.lost)
    assert len(set(returned)) == len(returned) == counts.returned
    assert {*returned} <= search.given
    tried = Counter(trial["network"] for trial in search.history)
    assert not tried or max(tried.values()) == 1


@settings(max_examples=60)
@given(workers=st.integers(1, 6), lag=MODES, seed=SEEDS, networks=st.sampled_from([0, 60]), retires=st.integers(0, 2))
def test_no_trial_is_granted_twice_and_none_is_lost(
    workers: int, lag: int | None, seed: int, networks: int, retires: int
) -> None:
    search = Search(SearchRules(workers, rounds=6, lag=lag), seed, networks, retires)
    for _ in range(400):
        search.move()
        accounts_hold(search)


@settings(max_examples=80)
@given(
    workers=st.integers(1, 6), lag=MODES, seed=SEEDS, trials=st.integers(0, 30), rounds=st.integers(0, 6)
)
def test_limits_are_exact(workers: int, lag: int | None, seed: int, trials: int, rounds: int) -> None:
    if not trials and not rounds:
        return
    search = Search(SearchRules(workers, trials, rounds, lag), seed).run()
    accounts_hold(search)
    most = workers * rounds or trials
    assert len(search.history) == min(trials or most, most)
    assert search.coordinator.counts.ended_by in ("trials", "rounds")
    assert all(worker.ended for worker in search.workers)
    per_worker = Counter(trial["worker"] for trial in search.history)
    if rounds:
        assert max(per_worker.values()) <= rounds
    if lag is not None:
        assert sorted(search.given) == [*range(1, len(search.given) + 1)]


def test_a_network_is_granted_once_and_else_the_next_of_a_claim() -> None:
    coordinator = Coordinator(SearchRules(3), nothing)

    def answer(worker: int, *networks: str) -> dict[str, object]:
        ((to, text),) = coordinator.handle(Claim(worker, 1, networks), 2.5)
        assert to == worker
        return dict(json.loads(text))

    assert answer(0, "a", "b") == {"kind": "granted", "id": 1, "given": 2.5, "place": 0}
    assert answer(1, "a", "b", "c") == {"kind": "granted", "id": 2, "given": 2.5, "place": 1}
    assert answer(2, "b", "a") == {"kind": "taken"}
    assert answer(2, "b", "d") == {"kind": "granted", "id": 3, "given": 2.5, "place": 1}
    assert (coordinator.counts.duplicates, coordinator.counts.granted, coordinator.running) == (4, 3, 3)


def what_they_did(search: Search) -> list[object]:
    """All answers to workers, and the trials: in an order that does not depend on the time."""
    return [
        [[answer for answer in worker.answers if not isinstance(answer, Noted)] for worker in search.workers],
        sorted((trial["id"], trial["network"], trial["parent"]) for trial in search.history),
        (search.coordinator.counts.duplicates, search.coordinator.counts.granted),
    ]


@settings(max_examples=60)
@given(
    workers=st.integers(1, 7),
    lag=st.integers(1, 3),
    seeds=st.tuples(SEEDS, SEEDS),
    networks=st.sampled_from([0, 120]),
    trials=st.sampled_from([0, 23]),
)
def test_rounds_do_not_depend_on_the_order_of_arrival(
    workers: int, lag: int, seeds: tuple[int, int], networks: int, trials: int
) -> None:
    one, other = (Search(SearchRules(workers, trials, 7, lag), seed, networks).run() for seed in seeds)
    assert one.coordinator.counts.granted > 0
    assert what_they_did(one) == what_they_did(other)


def test_searches_without_rounds_depend_on_the_order_of_arrival() -> None:
    """The comparison of the test above can fail."""
    one, other = (Search(SearchRules(4, rounds=7), seed, 120).run() for seed in (1, 2))
    assert what_they_did(one) != what_they_did(other)


@pytest.mark.parametrize("lag", [1, 2])
@pytest.mark.parametrize("workers", one_in(2, [3, 40]))
def test_weights_of_all_possible_parents_are_kept(lag: int, workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hpcai.search.trial_cache.MOST_IN_REPLY", 12)
    monkeypatch.setattr("hpcai.search.trial_cache.BEST_IN_REPLY", 4)
    search = Search(SearchRules(workers, rounds=14, lag=lag), seed=workers + lag)
    removed = 0
    while search.move():
        there = search.files
        removed = max(removed, len(search.history) - len(there))
        for worker in search.workers:
            assert not worker.chooses or {*worker.best()} <= there
        assert len(there) <= 32 + (2 * lag + 2) * workers
    assert search.forgone == 0 and removed > workers


def test_trials_with_removed_parents_are_forgone_and_the_search_continues() -> None:
    search = Search(SearchRules(30, trials=600), seed=5)
    search.coordinator.needed = lambda: {trial["id"] for trial in search.history[-8:]}  # type: ignore[method-assign]
    search.run()
    accounts_hold(search)
    assert search.forgone > 0 and len(search.history) == 600


@settings(max_examples=60)
@given(workers=st.integers(2, 6), lag=MODES, seed=SEEDS, retires=st.integers(1, 6))
def test_a_leaving_worker_does_not_block_others(workers: int, lag: int | None, seed: int, retires: int) -> None:
    search = Search(SearchRules(workers, rounds=5, lag=lag), seed, retires=min(retires, workers)).run()
    accounts_hold(search)
    rounds = Counter(trial["worker"] for trial in search.history)
    assert search.coordinator.counts.retired == sum(worker.left for worker in search.workers)
    assert all(worker.left or (worker.ended and rounds[worker.index] == 5) for worker in search.workers)


@settings(max_examples=40)
@given(workers=st.integers(1, 6), lag=MODES, seed=SEEDS, moves=st.integers(0, 300), trials=st.sampled_from([0, 9]))
def test_waiting_workers_learn_of_the_end(workers: int, lag: int | None, seed: int, moves: int, trials: int) -> None:
    search = Search(SearchRules(workers, trials=trials, lag=lag), seed, networks=500).run(moves)
    search.end("duration")
    before = search.coordinator.counts.granted
    search.run()
    accounts_hold(search)
    assert all(worker.ended for worker in search.workers)
    assert search.coordinator.counts.granted == before == len(search.history)
    assert search.coordinator.counts.ended_by in ("duration", "trials" if trials else "duration")


def test_results_of_trials_that_were_not_granted_are_refused() -> None:
    recorded: list[Result] = []
    coordinator = Coordinator(SearchRules(2), lambda result, lines: recorded.append(result))
    assert [*coordinator.handle(Claim(0, 1, ("a",)), 0.0)]
    for message in (Result(1, 1, 1, 0.5, True), Forgo(1, 1)):
        with pytest.raises(ValueError, match="worker 1 gave back trial 1, which it was not given"):
            [*coordinator.handle(message, 0.0, LINES)]
    assert not recorded and coordinator.counts.granted == coordinator.running == 1
    assert [*coordinator.handle(Result(0, 1, 1, 0.5, True), 0.0, LINES)] == [(0, NOTED)]
    with pytest.raises(ValueError, match="worker 0"):
        [*coordinator.handle(Result(0, 1, 1, 0.5, True), 0.0, LINES)]
    assert len(recorded) == 1


@pytest.mark.parametrize(
    "text",
    [b'{"kind":"gossip","worker":0}', b'{"kind":"ask","worker":0}', b'{"kind":"forgo","worker":0,"id":1.0}', b"{"],
)
def test_an_invalid_message_is_an_error(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"gossip|missing|Expected `int`|truncated"):
        decoded_request(text)


def test_a_result_is_known_before_it_is_recorded() -> None:
    """Otherwise its weights would be removed as those of a trial that is not needed."""
    coordinator = Coordinator(SearchRules(1), lambda result, lines: needed.append(coordinator.needed()))
    needed: list[set[int]] = []
    messages: tuple[Request, ...] = (Claim(0, 1, ("a",)), Result(0, 1, 1, 0.5, True))
    for message in messages:
        [*coordinator.handle(message, 0.0, LINES)]
    assert needed == [{1}]
