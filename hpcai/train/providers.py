"""Selects the provider of a network's layers: vendor, or custom, for all layers or for the faster ones.

Custom batch norm is fused with the following addition and ReLU where a kernel for that exists, RMS norm with the sum
before it. Norms have custom kernels in fp32, attention also in 16 bits; in other types torch computes them.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from hpcai.kernels import operators
from hpcai.kernels.operators import sequences
from hpcai.kernels.spec import DIRECTIONS
from hpcai.models.added_norms import join_sums
from hpcai.models.fused_layers import fuse
from hpcai.models.joined_layers import join
from hpcai.models.module import Layers
from hpcai.models.sequence_layers import EPSILON, CausalAttention, RmsNorm, SharedEmbedding, rotations
from hpcai.networks.sequences import HEAD
from hpcai.train import quantised

Forward = Callable[[Tensor], Tensor]
Size = tuple[int, ...]  # shape of a layer's input without the batch
SEQUENCES = CausalAttention, RmsNorm  # layers with one custom kernel for both passes
Directions = Mapping[Size, Collection[str]]  # the custom directions of a layer by its input's size


@dataclass(frozen=True)
class Choice:
    """Layers computed by custom kernels: directions by layer name and input size; names of norms and of attention."""

    products: Mapping[str, Directions]
    normalisations: Collection[str]


def use_custom(module: Layers, choice: Choice | None = None) -> None:
    """Compute a network, or the chosen part of it, by custom kernels.

    Call it when the module is on its device and in its precision, before its first step. A layer without custom
    directions is left unchanged.
    """
    convolved: dict[str, Callable[[Size], Collection[str]]] = {}
    for name, part in module.named_modules():
        if isinstance(part, SEQUENCES) and (choice is None or name in choice.normalisations):
            part.forward = partial(_of_sequences, part, part.forward)  # type: ignore[method-assign]
        custom = None if choice is None else choice.products.get(name, {})
        if custom is not None and not any(custom.values()):
            continue
        # Partial functions, not closures: a deep copy of the module has to compute with its own layers.
        if quantised.is_quantised(part):
            quantised.set_gradients(part, DIRECTIONS)
        elif isinstance(part, nn.Conv2d):
            part.forward = partial(_convolved, part, custom, part.forward)  # type: ignore[method-assign]
            convolved[name] = partial(_custom_directions, custom)
        elif isinstance(part, nn.Linear):
            part.forward = partial(_multiplied, part, custom, part.forward)  # type: ignore[method-assign]
    norms = None if choice is None else choice.normalisations
    fuse(module, norms, convolved)
    join_sums(module, norms)
    join(module)


def use_vendor(module: Layers) -> None:
    """Undo `use_custom`: compute the network by the vendor's kernels."""
    for part in module.modules():
        if quantised.is_quantised(part):
            quantised.set_gradients(part, ())
        forward: Any = getattr(part, "forward", None)
        if isinstance(forward, partial) and forward.func in (_convolved, _multiplied, _of_sequences):
            part.forward = forward.args[-1]
    module.steps = list(module.as_planned)


@contextmanager
def vendor_kernels(module: Layers) -> Iterator[None]:
    """While the block runs, the vendor's kernels compute the network; then its kernels are as before.

    int8 networks are left unchanged: other batch norm kernels round otherwise, so the next layer's bytes would differ.
    """
    if any(quantised.is_quantised(part) for part in module.modules()):
        yield
        return
    forwards = [(part, vars(part)["forward"]) for part in module.modules() if "forward" in vars(part)]
    steps = module.steps
    use_vendor(module)
    try:
        yield
    finally:
        for part, forward in forwards:
            part.forward = forward
        module.steps = steps


def _custom_directions(of: Directions | None, size: Size) -> Collection[str]:
    """The directions of a layer computed by custom kernels for an input of that size."""
    return DIRECTIONS if of is None else of.get(size, ())


def _convolved(part: nn.Conv2d, of: Directions | None, vendor_forward: Forward, images: Tensor) -> Tensor:
    custom = _custom_directions(of, tuple(images.shape[1:]))
    if not custom:
        return vendor_forward(images)
    y = operators.convolution(images, part.weight, part, custom)
    return y if part.bias is None else y.add_(part.bias.view(1, -1, 1, 1))


def _multiplied(part: nn.Linear, of: Directions | None, vendor_forward: Forward, rows: Tensor) -> Tensor:
    custom = _custom_directions(of, tuple(rows.shape[1:]))
    if not custom or (isinstance(part, SharedEmbedding) and part.looks_up(rows)):
        return vendor_forward(rows)
    y = operators.dense(rows, part.weight, custom)
    return y if part.bias is None else y.add_(part.bias)


def has_custom(part: nn.Module, x: Tensor) -> bool:
    """Whether there is a custom kernel of an attention or RMS norm for its input."""
    if isinstance(part, RmsNorm):
        return sequences.normalises(x, part.weight)
    return isinstance(part, CausalAttention) and sequences.attends(x)


def _of_sequences(part: CausalAttention | RmsNorm, vendor_forward: Forward, x: Tensor) -> Tensor:
    """Attention or RMS norm by the custom kernel, where there is one for x."""
    if not has_custom(part, x):
        return vendor_forward(x)
    if isinstance(part, RmsNorm):
        return sequences.rms_norm(x, part.weight, EPSILON)
    return sequences.attention(x, HEAD, *rotations(x.shape[1], torch.float32, x.device))
