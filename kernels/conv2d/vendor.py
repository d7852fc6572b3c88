"""Convolution by torch, hence oneDNN or cuDNN, in channels_last: forward and backward as training calls them."""

from collections.abc import Collection

import torch

from ..spec import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, Float32, Tensors
from . import Shape


def run(data: Tensors, shape: Shape, device: str, directions: Collection[str]) -> dict[str, Float32]:
    """y, dx, dw by direction, fp32 (tf32 and other switches as the caller set them), back on the host, NCHW or OIHW."""
    x, w, g = (torch.from_numpy(tensor).to(device, memory_format=torch.channels_last) for tensor in data)
    x.requires_grad_(INPUT_GRADIENT in directions)
    w.requires_grad_(WEIGHT_GRADIENT in directions)
    with torch.enable_grad():
        y = torch.nn.functional.conv2d(x, w, None, shape.stride, shape.padding, shape.dilation, shape.groups)
    if y.requires_grad:
        torch.autograd.backward(y, g)
    results = {FORWARD: y, INPUT_GRADIENT: x.grad, WEIGHT_GRADIENT: w.grad}
    wanted = {name: tensor for name, tensor in results.items() if name in directions and tensor is not None}
    return {name: tensor.detach().cpu().numpy() for name, tensor in wanted.items()}
