"""Updates whose rounding is larger than most moves: missing or doubled moves are distinguished from it."""

from pathlib import Path
from typing import Any

import pytest
import torch
from fault_runs import DEVIATION, FAULTY, LOST, STILL, Run
from launch import mpirun
from sampled_parameters import one_in
from test_replay import Tensors, gradients, ran
from tiny import CPU, alone, training, unending

from hpcai.clock import Phases
from hpcai.record.check_declarations import TERM_LOST
from hpcai.train.loop import Training
from hpcai.train.objective import Classification


def moved(trained: Training, factor: float) -> None:
    """Convolution weights move by a multiple of their step."""
    weights = [parameter.detach() for parameter in trained.state.module.parameters() if parameter.ndim == 4]
    kept: Tensors = []
    trained.state.optimiser.register_step_pre_hook(lambda *_: kept.extend(weight.clone() for weight in weights))

    def hook(*_: object) -> None:
        for weight in reversed(weights):
            old = kept.pop()
            weight.copy_(old + factor * (weight - old))

    trained.state.optimiser.register_step_post_hook(hook)


TYPES = {
    "update missing": lambda t: moved(t, 0.0),
    "update doubled": lambda t: moved(t, 2.0),
    "gradients zeroed": lambda t: gradients(t, torch._foreach_zero_),
    "gradients doubled": lambda t: gradients(t, lambda g: torch._foreach_mul_(g, 2)),
}


@pytest.mark.parametrize("rate", one_in(3, [0.05, 1e-3, 3.0]))
@pytest.mark.parametrize("momentum", [0.0, 0.875])
@pytest.mark.parametrize("precision", ["fp32", "pure16", "halffp16"])
def test_an_update_is_distinguished_from_its_rounding(precision: str, momentum: float, rate: float) -> None:
    for name, fault in {"none": lambda _: None, **TYPES}.items():
        trained = training(
            alone(), samples=160, epochs=2, precision=precision, momentum=momentum, learning_rate=rate, decay=5e-4
        )
        fault(trained)
        trained.run(Phases(CPU), unending())
        found = trained.checks.findings
        worst = max(found.deviation[0], found.lost[0] / TERM_LOST)
        assert worst > 1.5 if name != "none" else worst < 0.1, name


class Diminished(Classification):
    """The recipe's loss times a small factor."""

    def __call__(self, *inputs: Any) -> torch.Tensor:
        return 1e-6 * super().__call__(*inputs)


@pytest.mark.parametrize("momentum", [0.0, 0.875])
def test_gradients_below_the_smallest_normal_number_of_fp16_are_compared_by_its_spacing(momentum: float) -> None:
    for name, fault in {"none": lambda _: None, **TYPES}.items():
        if not name.startswith("update"):  # no move is as large as half a spacing
            trained = training(alone(), samples=160, precision="halffp16", momentum=momentum, decay=0.0)
            trained.objective = trained.checks.audited.objective = Diminished(trained.recipe.smoothing)
            fault(trained)
            trained.run(Phases(CPU), unending())
            found = trained.checks.findings
            worst = max(found.deviation[0], found.lost[0] / TERM_LOST)
            assert worst > 1.5 if name != "none" else worst < 0.35, (name, found.deviation, found.lost)


@pytest.mark.parametrize("precision", ["pure16", "halffp16"])
def test_moves_below_the_rounding_of_every_weight_prove_nothing(precision: str) -> None:
    for factor in (0.0, 1.0):
        trained = training(alone(), precision=precision, learning_rate=1e-6)
        moved(trained, factor)
        assert ran(trained).lost[0] < 0.1 * TERM_LOST


@pytest.mark.skipif(mpirun() is None, reason="NO mpirun: FAULTS NOT PLANTED")
@pytest.mark.exhaustive
def test_faults_in_pure16_are_detected_in_the_real_program(tmp_path: Path) -> None:
    faults = {"none": set(), "convolutions_not_updated": {LOST}, "gradient_of_a_rank_dropped": {LOST}}
    settings = ["PRECISION=pure16", "GROUPS=1", "DEGREE=2"]
    run = Run(tmp_path, [FAULTY, ",".join(faults)], settings, len(faults))
    for row, expected in zip(run.rows, faults.values(), strict=True):
        assert {name for name, verdict in row.items() if verdict == "FAILED"} - {DEVIATION, STILL} == expected
