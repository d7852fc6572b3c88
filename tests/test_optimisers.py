"""Each optimiser trains and its steps are replayed by its formula; each fault of an optimiser's family is detected."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from optimiser_changes import FAULTS
from sampled_parameters import fast, one_in
from test_replay import ran
from tiny import CPU, GRAPH, alone, bits, training, unending

from hpcai.clock import Phases
from hpcai.inputfile.keys import keys_by_name
from hpcai.networks.graph import Graph, Layer
from hpcai.networks.layers import Add, Conv, Relu
from hpcai.record.check_declarations import TERM_LOST
from hpcai.train.loop import Training
from hpcai.update_rules import RULES as RULES_BY_NAME
from hpcai.update_rules.adagrad import AdaGrad
from hpcai.update_rules.adam import Adam
from hpcai.update_rules.adamw import AdamW
from hpcai.update_rules.lamb import Lamb
from hpcai.update_rules.lars import Lars
from hpcai.update_rules.rule import UpdateRule

MOMENTS = {"beta1": 0.9, "beta2": 0.99, "epsilon": 0.0}
RULES: dict[str, tuple[UpdateRule, float]] = {  # with a learning rate
    "adam": (Adam(decay=0.01, **MOMENTS), 0.3),
    "adamw": (AdamW(decay=0.01, **MOMENTS), 0.3),
    "adagrad": (AdaGrad(decay=0.01, epsilon=0.0), 0.5),
    "lars": (Lars(decay=0.01, momentum=0.9, trust=0.02), 30.0),
    "lamb": (Lamb(decay=0.01, **MOMENTS), 0.3),
}
PRECISIONS = ("fp32", "pure16", "fp16")
CASES = [(name, precision) for name in RULES for precision in PRECISIONS]


def made(name: str, **changes: Any) -> Training:
    rule, rate = RULES[name]
    return training(alone(), samples=160, epochs=4, rule=rule, learning_rate=rate, **changes)


def worst(trained: Training) -> float:
    found = ran(trained)
    return max(found.deviation[0], found.lost[0] / TERM_LOST)


@pytest.mark.parametrize(("name", "precision"), fast([(name, "fp32") for name in RULES], CASES))
def test_an_optimiser_trains_and_its_steps_are_replayed(name: str, precision: str) -> None:
    trained = made(name, precision=precision)
    found = ran(trained)
    assert found.replayed >= 4  # one step of each epoch, or a few where they cost little
    assert (found.wrong_epochs, found.changed) == (0, 0)
    assert max(found.deviation[0], found.lost[0] / TERM_LOST) < 0.25
    losses = [point.loss for point in trained.state.progress.curve]
    assert losses[-1] < losses[0]


def with_silent_layer() -> Graph:
    """The tiny network, where the sum adds the output of one more convolution."""
    silent = Layer("silent", Conv(4, (3, 3), (1, 1), (1, 1), bias=True), ("stem_relu",))
    added = Layer("sum", Add(), ("branch_norm", "silent_relu"))
    layers = [added if layer.name == "sum" else layer for layer in GRAPH.layers]
    place = layers.index(added)
    return Graph((*layers[:place], silent, Layer("silent_relu", Relu(), ("silent",)), *layers[place:]))


@pytest.mark.parametrize("name", RULES)
def test_weights_whose_gradient_is_zero_only_decay(name: str) -> None:
    """As those of a layer whose output counts for no sample. In the only step the state begins with zeros."""
    rule, rate = RULES[name]
    trained = training(alone(), samples=8, epochs=1, rule=rule, learning_rate=rate, graph=with_silent_layer())
    silent = trained.state.module.get_submodule("silent")
    silent.bias.data.fill_(-1e3)
    before = silent.weight.detach().clone()
    assert worst(trained) < 0.25
    assert (silent.bias == -1e3).all() and not torch.equal(silent.weight, before)


@pytest.mark.parametrize("name", RULES)
def test_an_overflow_changes_neither_weights_nor_state(name: str) -> None:
    hit, spared = (made(name, precision="fp16") for _ in range(2))
    for trained in (hit, spared):
        assert trained.state.scaler is not None
        trained.state.scaler.scale.fill_(2.0**60 if trained is hit else 2.0**8)
    one_step(hit, 0)
    assert hit.state.skipped_steps == 1
    hit.state.scaler.scale.fill_(2.0**8)  # type: ignore[union-attr]
    for trained in (hit, spared):
        for number in (1, 2, 3):
            one_step(trained, number)
    for kept in ("param_groups", "state"):
        assert bits(hit.state.optimiser.state_dict()[kept]) == bits(spared.state.optimiser.state_dict()[kept])
    assert bits(dict(hit.state.module.named_parameters())) == bits(dict(spared.state.module.named_parameters()))


@pytest.mark.parametrize("name", ["adam", "adamw", "lamb"])
def test_early_updates_are_exact_where_overflows_are_counted(name: str) -> None:
    """1 - b^t is small: in fp32 it would have few digits."""
    rule, rate = replace(RULES[name][0], beta2=0.9999), RULES[name][1]
    trained = training(alone(), samples=160, epochs=1, rule=rule, learning_rate=rate, precision="halffp16")
    assert worst(trained) < 0.25


@pytest.mark.parametrize("precision", ["fp32", "pure16"])
@pytest.mark.parametrize("name", RULES)
def test_a_snapshot_has_the_whole_state(name: str, precision: str) -> None:
    trained = made(name, precision=precision)
    one_step(trained, 0)
    kept = trained.state.snapshot()
    ends = []
    for _ in range(2):
        for number in (1, 2):
            one_step(trained, number)
        ends.append(bits({"of": trained.state.snapshot()["optimiser"], "module": trained.state.snapshot()["module"]}))
        trained.state.restore(kept)
    assert ends[0] == ends[1]


def test_every_key_of_an_optimiser_is_declared_as_used_by_it() -> None:
    rules = keys_by_name()["OPTIMISER"].choices
    for key in keys_by_name().values():
        if key.used_by and key.used_by[0] == "OPTIMISER":
            fields = {name for name in rules if key.name.lower() in RULES_BY_NAME[name].__dataclass_fields__}
            assert key.used_by == ("OPTIMISER", tuple(name for name in rules if name in fields)), key.name


def one_step(trained: Training, number: int) -> None:
    ((x, y, _),) = trained.loader([trained.sampler.draw(trained.shard.step_positions(number))])
    trained._step(x, y)


EVERY = [(name, fault) for name, faults in FAULTS.items() for fault in faults]


@pytest.mark.parametrize(("name", "fault"), one_in(3, EVERY))
def test_a_fault_of_an_optimiser_is_detected(name: str, fault: str) -> None:
    trained = made(name)
    FAULTS[name][fault](trained)
    trained.run(Phases(CPU), unending())
    found = trained.checks.findings
    assert max(found.deviation[0], found.lost[0] / TERM_LOST) > 1
