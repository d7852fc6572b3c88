"""Update rules: properties of SGD, and an added rule that trains, is replayed and planned like any other."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from launch import ROOT
from test_replay import options, ran
from tiny import CPU, GRAPH, RECIPE, alone, training, unending

from hpcai.clock import Phases
from hpcai.estimate import Facts, memory
from hpcai.inputfile.keys import keys_by_name
from hpcai.networks import build
from hpcai.opcount import traffic
from hpcai.record.check_declarations import TERM_LOST
from hpcai.train.loop import Training
from hpcai.train.recipe import Recipe
from hpcai.update_rules import RULES, rule_of
from hpcai.update_rules.rule import BeforeStep, Terms, UpdateRule, Vector
from hpcai.update_rules.sgd import Sgd

SETTINGS = {
    **{"OPTIMISER": "damped", "MOMENTUM": 0.75, "DECAY": 0.01, "PRECISION": "fp32", "BATCH": 4, "DEGREE": 1},
    **{"GROUPS": 1, "EPOCHS": 3, "WARMUP": 0.0, "LEARNRATE": 1.0, "SCHEDULE": "linear"},
    **{"SCALING": "linear", "BETA1": 0.9, "BETA2": 0.999, "EPSILON": 0.0, "TRUST": 0.001},
    **{"ALLREDUCE": "flat", "WIRE": "fp32"},
}
VELOCITY = "momentum_buffer"


@RULES.register("damped")
@dataclass(frozen=True)
class Damped(UpdateRule):
    """SGD with dampening: v' = m v + (1 - m)(g + d w), but v' = g + d w in the first update; w' = w - r v'."""

    optimiser = "torch.optim.SGD"
    momentum: float

    @property
    def state(self) -> tuple[str, ...]:
        return (VELOCITY,)

    def options(self) -> Mapping[str, Any]:
        return {"momentum": self.momentum, "dampening": self.momentum}

    def sums(self, before: BeforeStep) -> Mapping[str, Terms]:
        share = 1.0 if before.number == 1 else 1 - self.momentum
        others = {"momentum": self.momentum * before.state[VELOCITY]}
        if before.decays:
            others["weight decay"] = share * self.decay * before.weights
        return {VELOCITY: Terms(others, lambda gradient: share * gradient, gain=share)}

    def move(self, before: BeforeStep, sums: Mapping[str, Vector]) -> Vector:
        return before.rate * sums[VELOCITY]


def damped(**changes: Any) -> Training:
    return training(alone(), samples=160, epochs=4, rule=Damped(decay=0.01, momentum=0.9), **changes)


def test_each_choice_of_optimiser_is_a_module_of_its_name() -> None:
    modules = {path.stem for path in (ROOT / "hpcai" / "update_rules").glob("*.py")}
    assert modules - {"__init__", "rule"} == set(keys_by_name()["OPTIMISER"].choices)
    for name in keys_by_name()["OPTIMISER"].choices:
        assert rule_of({**SETTINGS, "OPTIMISER": name}).decay == 0.01


@pytest.mark.parametrize("name", ["adam_of_nowhere", "../sgd", "rule", ""])
def test_a_rule_that_no_module_registers_is_an_error(name: str) -> None:
    with pytest.raises(KeyError):
        RULES[name]


@pytest.mark.parametrize(("momentum", "arrays", "moved"), [(0.9, 1, 5), (0.0, 0, 3)])
def test_sgd_keeps_and_moves_its_velocity(momentum: float, arrays: int, moved: int) -> None:
    rule = Sgd(decay=0.0, momentum=momentum)
    assert [rule.state_bytes(4), rule.bytes_moved(4)] == [4 * arrays, 4 * moved]
    assert [rule.decays(dimensions) for dimensions in (1, 2, 4)] == [False, True, True]


def test_a_rule_of_two_fp32_states_is_planned_by_its_declaration() -> None:
    @dataclass(frozen=True)
    class Two(Damped):
        @property
        def state(self) -> tuple[str, ...]:
            return "first", "second"

        def state_element(self, parameter: int) -> int:
            return 4

    try:
        RULES.register("two")(Two)
        graph = build("resnet8", (8, 8), 1, 2)
        plain, two = (
            memory(graph, {**SETTINGS, "OPTIMISER": name, "PRECISION": "pure16"}, Facts(0, 10, 64))
            for name in ("sgd", "two")
        )
        parameters = sum(graph.parameters.values())
        assert [plain["optimiser"], two["optimiser"]] == [2 * parameters, 8 * parameters]
        assert two["replay copies"] - plain["replay copies"] == 4 * 2 * (8 - 2) * parameters
        assert two["snapshot"] - plain["snapshot"] == 6 * parameters
        assert two["replay"] > plain["replay"]
    finally:
        RULES._classes.pop("two")


def test_an_added_rule_is_selected_by_the_settings_and_moves_its_bytes() -> None:
    recipe = Recipe.of(SETTINGS)
    assert recipe.rule == Damped(decay=0.01, momentum=0.75)
    assert traffic.step(GRAPH, 4, rule=recipe.rule).update == 4 * 5 * sum(GRAPH.parameters.values())


@pytest.mark.parametrize("precision", ["fp32", "pure16", "fp16"])
def test_an_added_rule_trains_and_its_steps_are_replayed(precision: str) -> None:
    found = ran(damped(precision=precision))
    assert found.replayed >= 4  # one step of each epoch, or a few where they cost little
    assert (found.wrong_epochs, found.changed) == (0, 0)
    assert found.deviation[0] < 0.2
    assert found.lost[0] < (0.1 if precision == "fp32" else 0.2) * TERM_LOST


@contextmanager
def without_first_update_apart() -> Iterator[None]:
    """The formula lacks the first update's exception."""
    genuine = Damped.sums
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Damped, "sums", lambda self, before: genuine(self, BeforeStep(**{**vars(before), "number": 2})))
        yield


def test_a_fault_in_an_added_rule_is_detected() -> None:
    trained = damped()
    options(trained, dampening=0.0)
    assert worst(trained) > 3
    assert worst(training(alone(), samples=160, epochs=4, rule=RECIPE.rule)) < 0.2
    as_if_damped = training(alone(), samples=160, epochs=4, rule=RECIPE.rule)
    as_if_damped.checks.audited._recipe = damped().recipe  # the optimiser is SGD, the recipe another rule
    as_if_damped.checks.audited._snapshots[0]._rule = damped().recipe.rule
    assert worst(as_if_damped) > 3


def test_the_number_of_the_update_reaches_the_formula() -> None:
    assert worst(training(alone(), samples=8, epochs=1, rule=Damped(decay=0.01, momentum=0.9))) < 0.2
    with without_first_update_apart():
        assert worst(training(alone(), samples=8, epochs=1, rule=Damped(decay=0.01, momentum=0.9))) > 3


def worst(trained: Training) -> float:
    trained.run(Phases(CPU), unending())
    found = trained.checks.findings
    return max(found.deviation[0], found.lost[0] / TERM_LOST)


def test_torch_stores_the_state_under_the_names_of_the_rule() -> None:
    for rule in (RECIPE.rule, Damped(decay=0.0, momentum=0.5)):
        trained = training(alone(), rule=rule)
        trained.run(Phases(CPU), unending())
        for state in trained.state.optimiser.state.values():
            tensors = {name for name, value in state.items() if isinstance(value, torch.Tensor) and value.ndim}
            assert tensors == {*rule.state}
