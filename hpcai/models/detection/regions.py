"""RoIAlign and non-maximum suppression on torch tensors by custom kernels.

Tensors on a CPU use the kernels in Numba, with torch's number of threads; those on a GPU the kernels in CuPy, on
torch's current stream, without synchronising.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from hpcai.kernels.providers import CUSTOM, Unavailable, module_of

LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)  # permutations to channels last, and back


def nms(boxes: Tensor, scores: Tensor, groups: Tensor, threshold: float, kept: int) -> Tensor:
    """Non-maximum suppression: int64[B, kept], indices of the kept boxes, the highest score first, padded with -1.

    From boxes [B, N, 4], half-open, scores [B, N] and groups [B, N], whose boxes never suppress those of others; a
    score of -inf marks a box that is not there.
    """
    given = (boxes.detach().float(), scores.detach().float(), groups.int())
    found = _kernel("nms", boxes).nms(*_arrays(*given), threshold, kept, torch.get_num_threads())
    return (found if boxes.is_cuda else torch.from_numpy(found)).long()


def roi_align(
    features: Sequence[Tensor], regions: Tensor, level: Tensor, scales: Sequence[float], side: int, samples: int
) -> Tensor:
    """RoIAlign: features [B * R, C, side, side] of regions [B, R, 4], channels last, in the type of the features.

    features: the levels, each [B, C, H, W]; those with channels last and of 32 bits are not copied. level [B, R] says
    from which one a region is taken; of any other number, all is 0. scales: pixels of a level per pixel of the image.
    The regions, half-open in pixels of the image, get no gradient.
    """
    pooled: Tensor = RoiAlign.apply(regions, level, tuple(scales), side, samples, *features)
    return pooled.flatten(0, 1).permute(FIRST)


class RoiAlign(Function):
    """Autograd function of RoIAlign over all levels, [B, R, side, side, C]; in fp32. The profiler shows its name."""

    @staticmethod
    def forward(
        ctx: Any, regions: Tensor, level: Tensor, scales: tuple[float, ...], side: int, samples: int, *features: Tensor
    ) -> Tensor:
        """All levels write into one result, each its own rows."""
        where = regions.detach().float().contiguous(), level.int().contiguous()
        first = features[0]
        out = first.new_zeros((*level.shape, side, side, first.shape[1]), dtype=torch.float32)
        kernel, threads = _kernel("roi_align", first), torch.get_num_threads()
        for own, (each, scale) in enumerate(zip(features, scales, strict=True)):
            given = _arrays(_channels_last(each.detach()), *where)
            kernel.forward(*given, own, scale, side, samples, *_arrays(out), threads)
        ctx.save_for_backward(*where)
        ctx.settings = scales, side, samples, [(each.shape, each.dtype) for each in features]
        return out.to(first.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        """Gradients of the features that require them."""
        where = ctx.saved_tensors
        scales, side, samples, made = ctx.settings
        bins = gradient.float().contiguous()
        kernel, threads = _kernel("roi_align", bins), torch.get_num_threads()
        found: list[Tensor | None] = [None] * 5
        for own, ((shape, dtype), scale) in enumerate(zip(made, scales, strict=True)):
            if not ctx.needs_input_grad[5 + own]:
                found.append(None)
                continue
            into = bins.new_zeros([shape[axis] for axis in LAST])
            kernel.backward(*_arrays(bins, *where), own, scale, side, samples, *_arrays(into), threads)
            found.append(into.permute(FIRST).to(dtype))
        return tuple(found)


@cache
def refusal(device: torch.device) -> str:
    """Why regions and boxes cannot be computed on this device, found by trying; empty if they can."""
    try:
        boxes = torch.zeros(1, 1, 4, device=device)
        nms(boxes, boxes[..., 0], boxes[..., 0], 0.5, 1)
        _kernel("roi_align", boxes)
    except (Unavailable, RuntimeError) as error:
        reason = str(error).strip().split("\n")[0]
        return f"[weather] on a {device.type} device needs custom kernels: {reason}; allowed: CuPy installed, or CPUs"
    return ""


def _channels_last(features: Tensor) -> Tensor:
    """[B, H, W, C] of 32 bits, contiguous; copied only if necessary."""
    return features.permute(LAST).float().contiguous()


def _kernel(name: str, tensor: Tensor) -> Any:
    return module_of(name, CUSTOM, tensor.device.type)


def _arrays(*tensors: Tensor) -> list[Any]:
    """Arguments of a kernel: NumPy views of CPU tensors; GPU tensors as they are."""
    return [tensor if tensor.is_cuda else tensor.numpy() for tensor in tensors]
