"""A history contains the tried networks, and selects among many trials those that a choice depends on."""

import os
import random
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from launch import ROOT
from random_graphs import drawn, some_graph

from hpcai import networks
from hpcai.errors import InputError
from hpcai.networks import morphism
from hpcai.networks.digest import digest
from hpcai.networks.graph import Graph, Layer
from hpcai.networks.layers import Add, Conv, Input
from hpcai.networks.morphism import Deepen, Kernel, Skip, Widen
from hpcai.search import trial_history as history_module
from hpcai.search.edit_distance import distances, features, packed
from hpcai.search.trial_history import TrialHistory

GRAPH = networks.build("resnet8", (16, 16), 1, 10, "v1")
WIDER, DEEPER = Widen("stage1_block1_conv1", 24), Deepen("stem_relu", 3)


def applied(*changes: morphism.Morphism) -> Graph:
    graph = GRAPH
    for change in changes:
        graph = change.apply(graph)
    return graph


def filled(values: list[float]) -> TrialHistory:
    """Trials of as many networks, all children of the initial one."""
    history = TrialHistory(GRAPH, 1)
    for id, value in enumerate(values, start=1):
        history.add(id, [Widen("stage1_block1_conv1", 16 + id)], value)
    return history


def ids(history: TrialHistory) -> list[int]:
    return [known.id for known in history.conditioned()]


def test_networks_are_derived_from_the_initial_one() -> None:
    history, chain = TrialHistory(GRAPH, 1), [WIDER, DEEPER, Kernel("deepen1_conv", 5)]
    history.add(3, [], 0.5)
    history.add(4, chain, 0.7)
    history.add(5, chain[:1], 0.6)
    history.add(6, [*chain, Kernel("deepen1_conv", 7)], 0.7)
    assert history.evaluated[4].graph == applied(*chain) and history.evaluated[4].chain == (*chain,)
    assert history.evaluated[6].graph == applied(*chain, Kernel("deepen1_conv", 7))
    assert history.tried == {digest(trial.graph) for trial in history.evaluated.values()}
    assert ids(history) == [3, 4, 5, 6]


def test_known_networks_are_not_created_again(monkeypatch: pytest.MonkeyPatch) -> None:
    history = TrialHistory(GRAPH, 1)
    history.add(1, [WIDER, DEEPER], 0.5)
    monkeypatch.setattr(Widen, "apply", None)
    history.add(2, [WIDER, DEEPER, Kernel("deepen1_conv", 5)], 0.5)
    with pytest.raises(TypeError):
        history.add(3, [Widen("stage1_block1_conv1", 25), DEEPER], 0.5)


def test_failed_trials_are_tried_but_not_evaluated() -> None:
    history = TrialHistory(GRAPH, 1)
    history.add(1, [WIDER], None)
    assert not history.evaluated and history.tried == {digest(applied(WIDER))}
    with pytest.raises(InputError):
        history.add(3, [Deepen("nowhere", 3)], 0.5)


def test_the_best_the_newest_and_some_other_trials_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_module, "BEST", 5)
    monkeypatch.setattr(history_module, "NEWEST", 4)
    monkeypatch.setattr(history_module, "DRAWN", 6)
    values = [*np.random.default_rng(1).permutation(40) / 100]
    assert ids(filled(values[:15])) == [*range(1, 16)]
    history = filled(values)
    chosen = ids(history)
    best = sorted(range(1, 41), key=lambda id: -values[id - 1])[:5]
    newest = [id for id in range(1, 41) if id not in best][-4:]
    assert len(chosen) == 15 and chosen == sorted(chosen)
    assert {*best, *newest} < {*chosen}
    assert chosen == ids(filled(values))
    others = TrialHistory(GRAPH, 2)
    for known in history.evaluated.values():
        others.add(known.id, known.chain, known.value)
    assert ids(others) != chosen and {*best, *newest} < {*ids(others)}


def test_forgotten_trials_are_tried_and_have_no_influence(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, count in (("BEST", 5), ("NEWEST", 4), ("DRAWN", 6)):
        monkeypatch.setattr(history_module, name, count)
    values = [*np.random.default_rng(1).permutation(60) / 100]
    whole, history = filled(values), filled(values[:30])
    history.forget()
    assert len(history.evaluated) == 15 and len(history.tried) == 30
    for id in range(31, 61):
        history.add(id, whole.evaluated[id].chain, whole.evaluated[id].value)
    assert ids(history) == ids(whole) and history.tried == whole.tried


def test_500_of_1000_trials_count() -> None:
    assert len(filled([0.5] * 500).conditioned()) == 500
    assert len({*ids(filled([0.001 * id for id in range(600)]))}) == 500


def test_distances_are_kept_and_right_in_any_order_of_queries() -> None:
    dice, history = random.Random(1), TrialHistory(some_graph(random.Random(2)), 1)
    history.add(1, [], 0.5)
    for id in range(2, 15):
        parent = history.evaluated[dice.choice([*history.evaluated])]
        change = drawn(parent.graph, dice.choice([*morphism.KINDS]), dice)
        history.add(id, (*parent.chain, change) if change else parent.chain, 0.5)
    trials = [*history.evaluated.values()]
    for chosen in (trials[:4], trials[2:9], trials[::-1], trials[5:6], [], trials):
        library = packed([features(trial.graph) for trial in chosen])
        wanted = [distances(features(trial.graph), library) for trial in chosen]
        np.testing.assert_array_equal(history.distances(chosen), np.array(wanted).reshape(len(chosen), len(chosen)))


def renamed(graph: Graph) -> Graph:
    return Graph(
        tuple(
            replace(layer, name=f"{layer.name}_", inputs=tuple(f"{name}_" for name in layer.inputs))
            for layer in graph.layers
        )
    )


def test_a_digest_does_not_depend_on_names() -> None:
    assert digest(renamed(GRAPH)) == digest(GRAPH)
    assert applied(DEEPER, WIDER) == applied(WIDER, DEEPER)
    other = Deepen("stage2_block1_relu2", 3)
    assert applied(DEEPER, other) != applied(other, DEEPER)
    assert digest(applied(DEEPER, other)) == digest(applied(other, DEEPER))
    one, two = (Skip(start, "stage3_block1_add") for start in ("stem_relu", "stage1_block1_relu2"))
    assert digest(applied(one, two)) == digest(applied(two, one))


def test_different_networks_have_different_digests() -> None:
    dice = random.Random(8)
    graphs = {GRAPH}
    for _ in range(150):
        origin = dice.choice(sorted(graphs, key=digest))
        change = drawn(origin, dice.choice([*morphism.KINDS]), dice)
        graphs |= {change.apply(origin)} if change else set()
    shapes = {tuple((layer.op, *sorted(layer.inputs)) for layer in graph.layers) for graph in graphs}
    assert len({digest(graph) for graph in graphs}) >= 0.9 * len(shapes)
    assert digest(applied(DEEPER)) != digest(applied(DEEPER, Deepen("deepen1_relu", 3)))
    assert digest(applied(Skip("stem_relu", "stage3_block1_add"))) != digest(
        applied(*[Skip("stem_relu", "stage3_block1_add")] * 2)
    )


def test_two_equal_layers_are_distinguished() -> None:
    image, conv = Layer("image", Input((1, 8, 8))), Conv(2, (3, 3))
    one, other = (Layer(name, conv, ("image",)) for name in ("one", "other"))
    twice = Graph((image, one, Layer("sum", Add(), ("one", "one"))))
    assert digest(twice) != digest(Graph((image, one, other, Layer("sum", Add(), ("one", "other")))))


def test_a_digest_is_the_same_in_every_process() -> None:
    program = "from hpcai import networks; from hpcai.networks.digest import digest"
    program += "; print(digest(networks.build('resnet8', (16, 16), 1, 10, 'v1')))"
    for seed in "12":
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        output = subprocess.check_output([sys.executable, "-c", program], cwd=ROOT, env=environment, text=True)
        assert output.strip() == digest(GRAPH)
