"""Candidates are legal, new, within the limits, and better than chance."""

from collections import Counter
from collections.abc import Callable
from math import exp
from random import Random
from statistics import median
from typing import Any

import pytest

from hpcai import networks
from hpcai.networks import morphism
from hpcai.networks.digest import digest
from hpcai.networks.graph import Graph
from hpcai.networks.layers import Conv
from hpcai.search import candidates as module
from hpcai.search.candidates import MOST, Candidate, Limits, Selection, propose
from hpcai.search.neighbours import FARTHEST, Neighbourhood
from hpcai.search.trial_history import TrialHistory

GRAPH = networks.build("resnet8", (16, 16), 1, 10, "v1")
ANY = Limits()
STRATEGIES = pytest.mark.parametrize("strategy", ["bayes", "random"])


def width(graph: Graph) -> float:
    """Mean number of channels."""
    channels = [layer.op.channels for layer in graph.layers if isinstance(layer.op, Conv)]
    return sum(channels) / len(channels)


def depth(graph: Graph) -> int:
    return sum(isinstance(layer.op, Conv) for layer in graph.layers)


def wider_is_better(graph: Graph) -> float:
    return 0.95 - 0.4 * exp(1 - width(graph) / width(GRAPH))


def searched(
    strategy: str, trials: int, seed: int, limits: Limits = ANY, value: Callable[[Graph], float] = wider_is_better
) -> tuple[TrialHistory, list[Selection]]:
    """A search of one worker that keeps the weights of its best 8 trials."""
    history, proposals = TrialHistory(GRAPH, seed), []
    for id in range(1, trials + 1):
        kept = sorted(history.evaluated, key=lambda id: -history.evaluated[id].value)[:8]
        proposals.append(propose(strategy, history, kept, limits, 1000 * seed + id, first=id == 1))
        best = proposals[-1].candidates[0]
        history.add(id, best.chain, value(best.graph))
    return history, proposals


def every(proposals: list[Selection]) -> list[Candidate]:
    return [candidate for proposal in proposals for candidate in proposal.candidates]


@STRATEGIES
def test_a_proposal_is_new_and_derived_from_its_parent(strategy: str) -> None:
    history, proposals = searched(strategy, 12, 1)
    assert len(history.tried) == 12
    for number, proposal in enumerate(proposals, start=1):
        assert 1 <= len(proposal.candidates) <= MOST
        assert len({candidate.digest for candidate in proposal.candidates}) == len(proposal.candidates)
        for candidate in proposal.candidates:
            assert candidate.parent is None or candidate.parent < number
            graph = history.initial if candidate.parent is None else history.evaluated[candidate.parent].graph
            assert candidate.ancestry == (() if candidate.parent is None else history.evaluated[candidate.parent].chain)
            for change in candidate.morphisms:
                graph = change.apply(graph)
            assert graph == candidate.graph
            assert candidate.digest == digest(graph)
            earlier = [known for known in history.evaluated.values() if known.id < number]
            assert candidate.digest not in {digest(known.graph) for known in earlier}
            assert len(candidate.morphisms) <= (FARTHEST if strategy == "bayes" else 1)
    assert {candidate.parent for candidate in every(proposals)} > {None, 1}


def test_where_all_neighbours_were_tried_candidates_are_farther_from_the_initial_network() -> None:
    """As where the networks that are parents fill the limits: thousands of trials find new networks."""
    history, farthest = TrialHistory(GRAPH, 1), 0
    limits = Limits(depth=depth(GRAPH) + 2)
    for seed in range(60):
        found = propose("random", history, (), limits, seed).candidates
        assert found and not {candidate.digest for candidate in found} & history.tried
        assert all(limits.allow(candidate.graph) and candidate.parent is None for candidate in found)
        history.tried.update(candidate.digest for candidate in found)
        farthest = max(farthest, *(len(candidate.morphisms) for candidate in found))
    assert farthest == FARTHEST


@STRATEGIES
def test_the_same_history_and_seed_give_the_same_proposals(strategy: str) -> None:
    history, proposals = searched(strategy, 8, 3)
    again, repeated = searched(strategy, 8, 3)
    assert every(proposals) == every(repeated) and history.tried == again.tried
    others = propose(strategy, history, [*history.evaluated], ANY, 5).candidates
    assert others == propose(strategy, again, [*again.evaluated][::-1], ANY, 5).candidates
    assert others != propose(strategy, history, [*history.evaluated], ANY, 6).candidates


def test_the_best_come_first() -> None:
    _, proposals = searched("bayes", 10, 2)
    for proposal in proposals[1:]:
        bounds = [candidate.bound for candidate in proposal.candidates]
        assert bounds == sorted(bounds, reverse=True)
        assert len({*bounds}) > 1


@STRATEGIES
def test_only_trials_with_stored_weights_are_parents(strategy: str) -> None:
    history, _ = searched(strategy, 10, 4)
    for seed in range(5):
        parents = {candidate.parent for candidate in propose(strategy, history, {3, 7, 99}, ANY, seed).candidates}
        assert parents <= {3, 7}
    begun = propose(strategy, history, [], ANY, 1)
    assert {candidate.parent for candidate in begun.candidates} == {None}
    assert all(len(candidate.morphisms) == 1 for candidate in begun.candidates)


@STRATEGIES
def test_workers_begin_with_different_networks(strategy: str) -> None:
    history = TrialHistory(GRAPH, 1)
    first = propose(strategy, history, [], ANY, 1, first=True)
    assert first.candidates[0].graph == GRAPH and first.candidates[0].morphisms == ()
    begun = [propose(strategy, history, [], ANY, seed).candidates for seed in range(2, 12)]
    assert all(candidate.parent is None for candidates in begun for candidate in candidates)
    assert len({candidates[0].digest for candidates in begun}) > 5
    assert all(len(candidates[0].morphisms) == 1 for candidates in begun)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["bayes", "random"])
def test_every_worker_proposes_all_operations(strategy: str) -> None:
    history, _ = searched(strategy, 6, 5)
    for worker in range(8):
        seen = Counter[str]()
        for attempt in range(10):
            candidates = propose(strategy, history, [*history.evaluated], ANY, 100 * worker + attempt).candidates
            seen.update(change.operation for candidate in candidates for change in candidate.morphisms)
        assert seen.keys() == morphism.KINDS.keys(), worker


def test_all_kinds_are_drawn_equally_often() -> None:
    neighbourhood, dice = Neighbourhood(GRAPH), Random(1)
    changes = [neighbourhood.draw(dice) for _ in range(800)]
    seen = Counter(change.operation for change in changes if change)
    assert all(150 < seen[kind] < 250 for kind in morphism.KINDS)
    ratios = [
        change.channels / GRAPH.shapes[change.layer][0] for change in changes if isinstance(change, morphism.Widen)
    ]
    assert min(ratios) == 1.25 and max(ratios) == 2
    for change in {*changes}:
        assert change and change.apply(GRAPH) != GRAPH


MOST_PARAMETERS = round(1.2 * sum(GRAPH.parameters.values()))
BY_LIMIT: dict[str, tuple[Limits, Callable[[Graph], bool]]] = {
    "depth": (Limits(depth(GRAPH) + 1), lambda graph: depth(graph) <= depth(GRAPH) + 1),
    "parameters": (Limits(0, MOST_PARAMETERS), lambda graph: sum(graph.parameters.values()) <= MOST_PARAMETERS),
    "memory": (Limits(fits=lambda graph: width(graph) < 42), lambda graph: width(graph) < 42),
}


@STRATEGIES
@pytest.mark.parametrize("name", [*BY_LIMIT])
def test_proposals_keep_to_the_limits(name: str, strategy: str) -> None:
    limits, keeps = BY_LIMIT[name]
    history, proposals = searched(strategy, 12, 6, limits)
    assert len(history.refused) == sum(proposal.rejected for proposal in proposals) > 0
    assert all(keeps(candidate.graph) for candidate in every(proposals))
    assert not all(keeps(candidate.graph) for candidate in every(searched(strategy, 12, 6)[1]))


def test_refused_networks_are_never_tried_again() -> None:
    asked: list[str] = []

    def fits(graph: Graph) -> bool:
        asked.append(digest(graph))
        return width(graph) < 42

    history, _ = searched("bayes", 15, 6, Limits(fits=fits))
    assert all(count == 1 for mark, count in Counter(asked).items() if mark in history.refused)
    assert len(history.refused & {*asked}) > 10


def test_the_initial_network_is_the_parent_if_no_other_has_candidates() -> None:
    history = TrialHistory(GRAPH, 1)
    history.add(1, [morphism.Widen("stem_conv", 64)], 0.9)
    limits = Limits(fits=lambda graph: graph.shapes["stem_conv"][0] < 64)
    for strategy in ("bayes", "random"):
        proposal = propose(strategy, history, [1], limits, 1)
        assert proposal.rejected and proposal.candidates
        assert {candidate.parent for candidate in proposal.candidates} == {None}
    nothing = propose("bayes", history, [1], Limits(fits=lambda graph: False), 2, first=True)
    assert [candidate.graph for candidate in nothing.candidates] == [GRAPH]


def test_duplicates_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    history = TrialHistory(GRAPH, 1)
    history.add(1, [], 0.5)
    monkeypatch.setattr(module.Neighbourhood, "draw", lambda self, dice: morphism.Deepen("stem_relu", 3))
    assert propose("random", history, [1], ANY, 1).duplicates == 0
    history.add(2, [morphism.Deepen("stem_relu", 3)], None)
    found = propose("random", history, [1], ANY, 1)
    assert found.duplicates > 0 and all(len(candidate.morphisms) > 1 for candidate in found.candidates)


@pytest.mark.parametrize("hottest", [1e6, 1.0, 1e-9])
def test_colder_searches_expand_fewer_unpromising_networks(hottest: float, monkeypatch: pytest.MonkeyPatch) -> None:
    history, _ = searched("random", 20, 7)
    expansions = Counter[int]()
    original = module._CandidateSearch.expanded

    def counted(search: module._CandidateSearch, *rest: Any) -> list[Candidate]:
        expansions[seed] += 1
        return original(search, *rest)

    monkeypatch.setattr(module._CandidateSearch, "expanded", counted)
    monkeypatch.setattr(module, "HOTTEST", hottest)
    monkeypatch.setattr(module, "COLDEST", hottest * 1e-4)
    for seed in range(6):
        propose("bayes", history, [*history.evaluated], ANY, seed)
    least, most = min(expansions.values()), max(expansions.values())
    assert (least, most) == (14, 14) if hottest > 1 else 1 <= least <= most <= 14
    assert (least < 14) == (hottest <= 1)


@pytest.mark.exhaustive
def test_better_networks_are_found_sooner_than_by_chance() -> None:
    best = {
        strategy: median(
            max(known.value for known in searched(strategy, 14, seed)[0].evaluated.values()) for seed in range(9)
        )
        for strategy in ("bayes", "random")
    }
    assert best["bayes"] > best["random"] + 0.03
