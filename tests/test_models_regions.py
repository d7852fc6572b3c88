"""Custom kernels on torch's tensors: values compared with torch's sampling, gradients by differences, and layouts."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import grid_sample

from hpcai.kernels.nms import reference
from hpcai.models.detection.regions import nms, roi_align
from hpcai.train.operator_classes import OTHER, operator_class

SIZES = ((16, 24), (8, 12), (4, 6))
SCALES = (1 / 4, 1 / 8, 1 / 16)
SIDE, SAMPLES = 3, 2


def pyramid(channels: int = 5, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    maps = [torch.randn(2, channels, *size, generator=generator) for size in SIZES]
    return [each.to(dtype, memory_format=torch.channels_last).requires_grad_() for each in maps]


def regions() -> tuple[Tensor, Tensor]:
    """Within an image of 64 x 96; one belongs to no level."""
    random = np.random.default_rng(3)
    corner = random.uniform(0, 1, (2, 6, 2)) * (40, 60)
    boxes = np.concatenate([corner, corner + random.uniform(4, 24, (2, 6, 2))], 2).astype(np.float32)
    level = np.array([[0, 1, 2, 0, -1, 1]] * 2)
    return torch.from_numpy(boxes), torch.from_numpy(level)


def sampled(maps: list[Tensor], boxes: Tensor, level: Tensor) -> Tensor:
    """The same by grid_sample, region by region."""
    out = torch.zeros(2, 6, maps[0].shape[1], SIDE, SIDE)
    for image, region in np.ndindex(2, 6):
        own = int(level[image, region])
        if own < 0:
            continue
        height, width = maps[own].shape[2:]
        top, left, bottom, right = (boxes[image, region] * SCALES[own]).tolist()
        parts = (torch.arange(SIDE * SAMPLES) + 0.5) / (SIDE * SAMPLES)
        rows, columns = top + parts * (bottom - top), left + parts * (right - left)
        y, x = torch.meshgrid(2 * rows / height - 1, 2 * columns / width - 1, indexing="ij")
        grid = torch.stack([x, y], -1)[None]
        points = grid_sample(maps[own][image : image + 1], grid, padding_mode="border", align_corners=False)
        out[image, region] = torch.nn.functional.avg_pool2d(points, SAMPLES)[0]
    return out.flatten(0, 1)


def test_values_and_gradients_are_those_of_torchs_sampling() -> None:
    maps, others, (boxes, level) = pyramid(), pyramid(), regions()
    computed, expected = roi_align(maps, boxes, level, SCALES, SIDE, SAMPLES), sampled(others, boxes, level)
    assert computed.shape == (12, 5, SIDE, SIDE)
    torch.testing.assert_close(computed, expected, atol=1e-5, rtol=1e-5)
    assert (computed[4] == 0).all() and (computed[10] == 0).all() and computed[[0, 1, 2, 3]].abs().amin() > 0
    weights = torch.randn(computed.shape, generator=torch.Generator().manual_seed(2))
    for each in (computed, expected):
        (each * weights).sum().backward()
    for own, other in zip(maps, others, strict=True):
        assert own.grad is not None and other.grad is not None and own.grad.abs().sum() > 0
        torch.testing.assert_close(own.grad, other.grad, atol=1e-5, rtol=1e-5)


def test_gradients_are_the_differences_due_to_features() -> None:
    """The pooling is linear in the features, so that a large step causes no error but that of fp32."""
    maps, (boxes, level) = pyramid(2), regions()
    weights = torch.randn(12, 2, SIDE, SIDE, generator=torch.Generator().manual_seed(4))

    def loss() -> Tensor:
        return (roi_align(maps, boxes, level, SCALES, SIDE, SAMPLES) * weights).sum()

    loss().backward()
    random = np.random.default_rng(5)
    for each in maps:
        assert each.grad is not None
        seen = np.argwhere(each.grad.numpy() != 0)
        for place in map(tuple, random.choice(seen, 8)):
            with torch.no_grad():
                low = loss()
                each[place] += 4.0
                high = loss()
                each[place] -= 4.0
            assert torch.isclose((high - low) / 4.0, each.grad[place], atol=1e-4)


def test_only_required_gradients_are_computed() -> None:
    maps, (boxes, level) = pyramid(), regions()
    maps[1] = maps[1].detach()
    boxes.requires_grad_()
    roi_align(maps, boxes, level, SCALES, SIDE, SAMPLES).sum().backward()
    assert boxes.grad is None and maps[1].grad is None
    assert maps[0].grad is not None and maps[2].grad is not None


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_features_of_16_bits_are_pooled_in_32(dtype: torch.dtype) -> None:
    maps, (boxes, level) = pyramid(dtype=dtype), regions()
    wide = [each.detach().float().requires_grad_() for each in maps]
    computed, expected = (roi_align(each, boxes, level, SCALES, SIDE, SAMPLES) for each in (maps, wide))
    assert computed.dtype == dtype and torch.equal(computed, expected.to(dtype))
    for each in (computed, expected):
        each.sum().backward()
    for own, other in zip(maps, wide, strict=True):
        assert own.grad is not None and other.grad is not None
        assert own.grad.dtype == dtype and torch.equal(own.grad, other.grad.to(dtype))


def test_features_with_channels_last_are_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    from hpcai.kernels.roi_align import numba_cpu

    seen: list[int] = []
    genuine = numba_cpu.forward

    def watched(features: Any, *rest: Any) -> None:
        seen.append(features.ctypes.data)
        genuine(features, *rest)

    monkeypatch.setattr(numba_cpu, "forward", watched)
    maps, (boxes, level) = pyramid(), regions()
    last = roi_align(maps, boxes, level, SCALES, SIDE, SAMPLES)
    assert seen == [each.data_ptr() for each in maps]
    first = roi_align([each.contiguous() for each in maps], boxes, level, SCALES, SIDE, SAMPLES)
    assert torch.equal(first, last) and last.is_contiguous(memory_format=torch.channels_last)


def test_the_kept_boxes_are_those_of_the_reference() -> None:
    random = np.random.default_rng(6)
    corner = random.integers(0, 20, (2, 50, 2))
    boxes = np.concatenate([corner, corner + random.integers(1, 9, (2, 50, 2))], 2).astype(np.float32)
    scores, groups = random.random((2, 50), np.float32), random.integers(0, 3, (2, 50)).astype(np.int32)
    given = (torch.from_numpy(boxes), torch.from_numpy(scores).requires_grad_(), torch.from_numpy(groups).long())
    found = nms(*given, 0.3, 20)
    assert found.dtype == torch.int64
    assert np.array_equal(found.numpy(), reference.nms(boxes, scores, groups, 0.3, 20))


def test_the_profiler_records_the_operators() -> None:
    maps, (boxes, level) = pyramid(), regions()
    with torch.profiler.profile() as profiled:
        roi_align(maps, boxes, level, SCALES, SIDE, SAMPLES).sum().backward()
    names = {event.name for event in profiled.events() if "RoiAlign" in event.name}
    assert names and {operator_class(name) for name in names} == {OTHER}


@pytest.mark.skipif("not torch.cuda.is_available()", reason="NO GPU: REGIONS NOT POOLED ON A DEVICE")
def test_a_gpu_gives_the_results_of_a_cpu() -> None:
    maps, (boxes, level) = pyramid(), regions()
    distant = [each.detach().cuda().requires_grad_() for each in maps]
    computed = roi_align(maps, boxes, level, SCALES, SIDE, SAMPLES)
    expected = roi_align(distant, boxes.cuda(), level.cuda(), SCALES, SIDE, SAMPLES)
    torch.testing.assert_close(computed, expected.cpu())
    computed.sum().backward()
    expected.sum().backward()
    for own, other in zip(maps, distant, strict=True):
        assert own.grad is not None and other.grad is not None
        torch.testing.assert_close(own.grad, other.grad.cpu())
