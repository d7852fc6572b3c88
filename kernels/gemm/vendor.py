"""The matrix product by torch, hence MKL, oneDNN or cuBLAS: forward and backward as training calls them."""

from collections.abc import Collection

import torch

from ..spec import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, Float32, Tensors
from . import Shape


def run(
    data: Tensors, shape: Shape, device: str, directions: Collection[str], stored: str = "float32"
) -> dict[str, Float32]:
    """y, dx, dw by direction, computed from and to the type `stored`, back on the host in fp32.

    tf32 and other switches are as the caller set them.
    """
    x, w, g = (torch.from_numpy(tensor).to(device, getattr(torch, stored)) for tensor in data)
    x.requires_grad_(INPUT_GRADIENT in directions)
    w.requires_grad_(WEIGHT_GRADIENT in directions)
    with torch.enable_grad():
        y = torch.matmul(x, w.t())
    if y.requires_grad:
        torch.autograd.backward(y, g)
    results = {FORWARD: y, INPUT_GRADIENT: x.grad, WEIGHT_GRADIENT: w.grad}
    wanted = {name: tensor for name, tensor in results.items() if name in directions and tensor is not None}
    return {name: tensor.detach().float().cpu().numpy() for name, tensor in wanted.items()}
