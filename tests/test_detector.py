"""The detector as a whole: its operations, and that it learns, but not if something is wrong."""

from copy import deepcopy
from typing import Any

import pytest
import torch
from rectangles import CLASSES, GRAPH, ROWS, SIZE, detector, fields, found, trained
from synchronisation_watch import Operations
from torch.utils.flop_counter import FlopCounterMode

from hpcai.models.detection.detector import build as build_detector
from hpcai.models.module import Network
from hpcai.models.operation_counter import Executed
from hpcai.networks import build
from hpcai.opcount import count
from hpcai.train import precision as precisions

CPU = torch.device("cpu")
STEPS = 50
NO_BOXES = torch.full((2, ROWS, 5), -1.0)


@pytest.mark.parametrize(
    ("name", "image", "classes"),
    [("fasterrcnn8", (48, 64), 2), ("fasterrcnn8", (70, 97), 4), ("fasterrcnn18", (64, 96), 3)],
)
def test_rule_model_equals_the_counter_of_torch_on_the_real_module(name: str, image: Any, classes: int) -> None:
    graph = build(name, image, 16, classes)
    counted, module = count(graph, "model"), build_detector(graph, 0)
    with FlopCounterMode(display=False) as counter:
        loss = module(torch.randn(2, 16, *image), NO_BOXES, 0).sum()
        assert counter.get_total_flops() == 2 * counted.forward
        loss.backward()
    assert counter.get_total_flops() == 2 * counted.total
    module.eval()
    with FlopCounterMode(display=False) as counter, torch.inference_mode():
        module(torch.randn(2, 16, *image))
    assert counter.get_total_flops() == 2 * counted.forward


def test_executed_operations_are_counted_with_shared_layers_and_regions() -> None:
    module, (x, targets) = detector(), fields(3, 0)
    executed = Executed(module)
    executed.learn(module, x, targets, 0)
    for draw in (1, 2):
        loss = module(x, targets, draw).sum()
        executed.add(x)
        loss.backward()
        executed.end_backward()
    assert executed.operations == 2 * 3 * count(GRAPH, "model").total


def test_every_parameter_has_a_gradient_even_without_boxes() -> None:
    module, (x, _) = detector(), fields(2, 0)
    losses = module(x, NO_BOXES, 3)
    assert losses.shape == (4,) and losses.isfinite().all()
    assert losses[1] == losses[3] == 0 < losses[0]
    losses.sum().backward()
    assert not [name for name, p in module.named_parameters() if p.grad is None or not p.grad.isfinite().all()]


def test_boxes_without_extent_or_outside_give_finite_losses() -> None:
    module, (x, targets) = detector(), fields(2, 0)
    targets[0, 1] = torch.tensor([5, 5, 5, 9, 0])
    targets[1, 1] = torch.tensor([60, 80, 70, 90, 1])
    module(x, targets, 0).sum().backward()
    assert all(p.grad.isfinite().all() for p in module.parameters())


def test_detections_are_sorted_clipped_and_padded() -> None:
    module, (x, _) = detector().eval(), fields(2, 0)
    with torch.inference_mode():
        rows = module(x)
    assert rows.shape == (2, 100, 6) and rows.dtype == torch.float32
    there = rows[..., 4] > -torch.inf
    assert there.any() and not there.all()
    assert (rows[..., 4].diff(dim=1).nan_to_num(0) <= 0).all()
    assert (rows[~there] == torch.tensor([0, 0, 0, 0, -torch.inf, -1])).all()
    boxes, kinds = rows[there][:, :4], rows[there][:, 5]
    assert (boxes >= 0).all() and (boxes <= torch.tensor([*SIZE, *SIZE])).all()
    assert set(kinds.tolist()) <= set(range(CLASSES))


def test_losses_depend_on_the_draw_alone() -> None:
    module, (x, targets) = detector(), fields(2, 0)
    first, again, other = (module(x, targets, draw) for draw in (7, 7, 8))
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_training_and_detection_do_not_wait_for_the_device() -> None:
    module, (x, targets) = detector(), fields(2, 0)
    module(x, targets, 0)  # anchors and priorities are created once
    with Operations() as watched:
        module(x, targets, 1).sum().backward()
    assert len(watched.names) > 100
    assert watched.waits == ["lift_fresh"]  # the result of the suppression on a CPU; on a GPU it stays there


@pytest.mark.parametrize("precision", ["fp16", "bf16", "pure16", "halffp16"])
def test_losses_in_16_bits_are_near_those_in_32(precision: str) -> None:
    module, (x, targets) = detector(), fields(4, 0)
    short = deepcopy(module)
    precisions.apply(precision, short, CPU)
    wanted, losses = module(x, targets, 0), short(x, targets, 0)
    assert losses.dtype == torch.float32
    torch.testing.assert_close(losses[0], wanted[0], rtol=0.02, atol=0.01)
    torch.testing.assert_close(losses[2], wanted[2], rtol=0.1, atol=0.05)
    losses.sum().backward()
    assert all(p.grad.isfinite().all() for p in short.parameters())
    with torch.inference_mode():
        assert short.eval()(x).shape == (4, 100, 6)


def test_a_detector_is_not_built_as_a_network_nor_trained_without_boxes() -> None:
    with pytest.raises(TypeError, match=r"layer 'proposals_regions' \(proposals\): a network with it is a Detector"):
        Network(GRAPH)
    with pytest.raises(TypeError, match="trained with the boxes"):
        detector()(fields(1, 0)[0])


def test_weights_depend_on_the_seed_alone() -> None:
    torch.manual_seed(1)
    one = detector(5)
    torch.manual_seed(2)
    assert all(map(torch.equal, one.state_dict().values(), detector(5).state_dict().values()))
    assert not torch.equal(one.boxes_dense1.weight, detector(6).boxes_dense1.weight)
    assert one.boxes_scores.weight.std().item() == pytest.approx(0.01, rel=0.5)
    assert not one.proposals_score1.weight.any() and not one.proposals_offset1.weight.any()


def _frozen(module: Any) -> None:
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(not name.startswith("proposals_"))


@pytest.mark.exhaustive
def test_it_learns_rectangles_and_wrong_variants_learn_less() -> None:
    x, targets = fields(160, 1)
    unseen = fields(32, 2)
    right = detector()
    losses = trained(right, x, targets, STEPS)
    assert sum(losses[-3:]) < sum(losses[:3]) / 4
    quality = found(right, *unseen)
    assert quality > 0.8
    frozen, exchanged = detector(), detector()
    _frozen(frozen)
    trained(frozen, x, targets, STEPS)
    trained(exchanged, x, targets[..., [1, 0, 3, 2, 4]], STEPS)
    assert found(frozen, *unseen) < quality - 0.2
    assert found(exchanged, *unseen) < quality / 2
