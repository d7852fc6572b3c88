"""Objectives: the loop minimises the workload's objective, alone and in a group, and an audit repeats it."""

from dataclasses import replace
from socket import gethostname
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from hpcai.train.unchecked_content import Unchecked

if TYPE_CHECKING:
    from hpcai.comm.grid import Group
    from hpcai.train.loop import Training

FRAMES, BATCH = 12, 3


class NoValidation:
    """A validation without samples."""

    shard, content = SimpleNamespace(steps=0), Unchecked()

    def warm_up(self, module: Any) -> None:
        """Nothing to evaluate."""

    def run(self, module: Any, group: Any, stop: Any = None) -> Any:
        from hpcai.train.validation import ValidationResult

        return ValidationResult(0, 0, 0)


def detecting(group: "Group", frames: int = FRAMES) -> "Training":
    """The training of a detector on rectangles; every second frame has no boxes."""
    from rectangles import Fields, detector, fields
    from tiny import CPU, RECIPE, SEED, communication

    from hpcai.data.bootstrap import Whole
    from hpcai.data.order import Shard
    from hpcai.train.compiled_execution import build_execution
    from hpcai.train.loop import Training
    from hpcai.train.objective import Detection
    from hpcai.train.state import training_state

    x, targets = fields(frames, 1)
    targets[::2] = -1.0
    recipe = replace(RECIPE, batch=BATCH, degree=group.degree, epochs=2, learning_rate=1.0)
    module = detector()
    state = training_state(module, recipe, "fp32", CPU)
    shard = Shard(frames, group.coordinates.member, group.degree, BATCH)
    loader: Any = Fields(x, targets)
    execution = build_execution("off", module, group, CPU, communication(group))
    no_validation: Any = NoValidation()
    return Training(
        state, execution, recipe, Whole(frames), shard, loader, no_validation, group, SEED, objective=Detection(SEED, 0)
    )


def run(training: "Training") -> None:
    from tiny import CPU, unending

    from hpcai.clock import Phases

    training.warm_up()
    training.run(Phases(CPU), unending())


@pytest.mark.slow
def test_a_detector_trains_by_the_loop_and_its_audited_steps_repeat() -> None:
    from rectangles import GRAPH
    from tiny import alone, bits

    from hpcai.opcount import count

    first, second = detecting(alone()), detecting(alone())
    run(first), run(second)
    assert bits(first.state.snapshot()) == bits(second.state.snapshot())
    found = first.checks.findings
    assert found.replayed >= 2 and found.deviation[0] < 0.5 and found.lost[0] < 0.1
    assert (found.wrong_epochs, found.changed) == (0, 0)
    progress, each = first.state.progress, count(GRAPH, "model").total
    assert progress.samples == 2 * FRAMES and progress.operations == 2 * FRAMES * each


def _shifted(training: "Training") -> None:
    """A step uses the anchors and regions of the next step."""
    genuine = training.objective
    training.objective = lambda network, x, y, step: genuine(network, x, y, step + 1)


def _one_loss(training: "Training") -> None:
    training.objective = lambda network, x, y, step: network(x, y, 0)[0]


@pytest.mark.parametrize("fault", [_shifted, _one_loss])
def test_an_audit_detects_another_objective(fault: Any) -> None:
    from tiny import alone

    training = detecting(alone())
    fault(training)
    run(training)
    found = training.checks.findings
    assert max(found.deviation[0], found.lost[0] / 0.25) > 1


def test_draws_depend_on_seed_model_and_step() -> None:
    import torch

    from hpcai.train.objective import Detection

    def draw(seed: int, model: int, step: int) -> int:
        drawn: list[int] = []

        def network(x: Any, y: Any, draw: int) -> torch.Tensor:
            drawn.append(draw)
            return torch.zeros(4)

        Detection(seed, model)(network, torch.zeros(1), torch.zeros(1), step)
        return drawn[0]

    assert draw(1, 0, 0) == draw(1, 0, 0)
    assert len({draw(1, 0, 0), draw(2, 0, 0), draw(1, 1, 0), draw(1, 0, 1)}) == 4


@pytest.mark.slow
@pytest.mark.parallel(2)
def test_ranks_of_a_group_train_one_detector_even_if_one_has_no_boxes() -> None:
    from mpi4py import MPI
    from tiny import CPU

    from hpcai.comm.grid import split
    from hpcai.comm.rendezvous import process_group
    from hpcai.train.data_parallel import average_statistics, differs_from_others

    world = MPI.COMM_WORLD
    group = split(world, 1, world.size, "row")
    assert group is not None
    with process_group(group, gethostname(), CPU):
        training = detecting(group, FRAMES * group.degree)
        if group.coordinates.member:
            training.loader.targets.fill_(-1)  # type: ignore[attr-defined]
        run(training)
        average_statistics(training.state.module, group)
        assert not differs_from_others(training.state.module, group)
    found = training.checks.findings
    assert found.replayed >= 2 and found.deviation[0] < 0.5 and found.changed == 0
    assert training.state.progress.samples == 2 * FRAMES
