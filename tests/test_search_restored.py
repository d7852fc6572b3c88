"""A coordinator and leaders that go on after an interruption make the choices of a search that had none."""

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_workers import Json, Search
from trial_records import trial

from hpcai.record.trial import Trial
from hpcai.search.earlier_trials import result as result_of
from hpcai.search.learnt_again import learn_again
from hpcai.search.messages import FinishedTrial, Result, decoded_finished_trial
from hpcai.search.search_rules import Counts, SearchRules

Returned = tuple[Result, bytes, str]


class Recording(Search):
    """A search that keeps what returned, in order."""

    returned: list[Returned]

    def _record(self, result: Result, lines: Sequence[bytes]) -> None:
        self.returned = [*getattr(self, "returned", []), (result, lines[0], "")]
        super()._record(result, lines)
        self.returned[-1] = (result, lines[0], str(self.history[-1]["network"]))


class Learning:
    """What a worker of the interrupted search had learnt."""

    rejected, taken = 0, ()

    def __init__(self) -> None:
        self.learnt: list[FinishedTrial] = []

    def learn(self, trials: Sequence[FinishedTrial]) -> None:
        self.learnt += trials

    def suggest(self, round_: int, attempt: int) -> list[object]:
        raise NotImplementedError


def interrupted(rules: SearchRules, seed: int, moves: int, networks: int) -> Recording:
    search = Recording(rules, seed, networks)
    search.run(moves)
    return search


def resumed(before: Recording, seed: int, networks: int) -> Recording:
    """The search after a resumption: of the one before it knows the trials that returned, and their weights."""
    rules, returned = before.coordinator.rules, getattr(before, "returned", [])
    search = Recording(rules, seed, networks)
    search.returned, search.history = [*returned], [*before.history]
    search.files = {trial["id"] for trial in before.history} & before.files
    search.given = {result.id for result, _, _ in returned}
    search.coordinator.restore(returned, Counts(granted=len(returned), returned=len(returned)))
    told = [(recorded(result), decoded_finished_trial(text)) for result, text, _ in returned]
    for queue in (*search._to, *search._from):
        queue.clear()
    for worker in search.workers:
        source = Learning()
        worker.known = learn_again(source, rules, worker.index, told)  # type: ignore[arg-type]
        worker.learnt = source.learnt
        own = [result.round for result, _, _ in returned if result.worker == worker.index]
        search._ask(worker, max(own, default=0) + 1)
    return search


def recorded(result: Result) -> Trial:
    return trial(id=result.id, worker=result.worker, round=result.round)


def by_number(history: Sequence[Json]) -> dict[int, tuple[str, int | None]]:
    return {trial["id"]: (trial["network"], trial["parent"]) for trial in history}


SEEDS = st.integers(0, 2**32)


@settings(max_examples=60, deadline=None)
@given(
    workers=st.integers(1, 5),
    lag=st.integers(1, 3),
    limit=st.sampled_from(({"rounds": 12}, {"trials": 31})),
    seeds=st.tuples(SEEDS, SEEDS, SEEDS),
    moves=st.tuples(st.integers(0, 400), st.integers(0, 200)),
    networks=st.sampled_from((0, 400)),
)
def test_a_repeatable_search_that_was_interrupted_twice_has_the_same_trials(
    workers: int, lag: int, limit: dict[str, int], seeds: tuple[int, int, int], moves: tuple[int, int], networks: int
) -> None:
    rules = SearchRules(workers, lag=lag, **limit)
    whole = Recording(rules, seeds[0], networks).run()
    once = interrupted(rules, seeds[1], moves[0], networks)
    again = resumed(once, seeds[2], networks)
    again.run(moves[1])
    last = resumed(again, seeds[0], networks).run()
    assert by_number(last.history) == by_number(whole.history) and len(last.history) == len(whole.history)
    assert last.coordinator.counts.granted == len(last.history) and all(worker.ended for worker in last.workers)


@settings(max_examples=40, deadline=None)
@given(workers=st.integers(1, 5), seeds=st.tuples(SEEDS, SEEDS), moves=st.integers(0, 400), trials=st.integers(1, 40))
def test_any_search_that_was_interrupted_has_as_many_trials_each_of_another_network(
    workers: int, seeds: tuple[int, int], moves: int, trials: int
) -> None:
    before = interrupted(SearchRules(workers, trials=trials), seeds[0], moves, 400)
    after = resumed(before, seeds[1], 400).run()
    assert after.history[: len(before.history)] == before.history
    assert len(after.history) == len({trial["network"] for trial in after.history}) == trials
    assert after.coordinator.counts.granted == trials


def test_what_workers_know_again_is_what_they_knew() -> None:
    rules = SearchRules(3, lag=2)
    search = Recording(rules, 7)
    for _ in range(300):
        search.move()
    told = [(recorded(result), decoded_finished_trial(text)) for result, text, _ in search.returned]
    for worker in search.workers:
        source = Learning()
        known = learn_again(source, rules, worker.index, told)  # type: ignore[arg-type]
        assert source.learnt == worker.learnt[: len(source.learnt)] and known <= worker.known
        assert len(source.learnt) > 20


@pytest.mark.parametrize("seed", range(3))
def test_workers_that_have_left_are_not_waited_for(seed: int) -> None:
    """One left for good after its last trial; the others know what they knew."""
    rules = SearchRules(3, lag=1, rounds=12)
    search = Recording(rules, Random(seed).randrange(1000), retires=1)
    search.run()
    told = [(recorded(result), decoded_finished_trial(text)) for result, text, _ in search.returned]
    for worker in search.workers:
        source = Learning()
        learn_again(source, rules, worker.index, told)  # type: ignore[arg-type]
        assert source.learnt == worker.learnt[: len(source.learnt)]
    assert result_of(told[0][0], told[0][1]).id == told[0][0].id
