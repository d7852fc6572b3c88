"""Faults in language models: what attention sees, what follows a byte, what bits are counted."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from planting import Fault, replaced
from torch import Tensor
from torch.nn import functional

from hpcai.data.text.text_loader import Loader
from hpcai.kernels.attention import numba_cpu as attention_kernel
from hpcai.kernels.operators import sequences
from hpcai.models import sequence_layers
from hpcai.train import text_validation
from hpcai.train.clipping import Clipping


def positions_left_out() -> Fault:
    """Queries and keys are not rotated by their places."""
    return replaced(sequence_layers, "rotated", lambda genuine: lambda heads: heads)


def mask_off_by_one() -> Fault:
    """Each place attends to the next one as well, which is the byte that it should predict."""

    def make(genuine: Callable[..., Tensor]) -> Any:
        def attention(queries: Tensor, keys: Tensor, values: Tensor, is_causal: bool) -> Tensor:
            places = queries.shape[2]
            seen = torch.ones(places, places, dtype=torch.bool, device=queries.device).tril(1)
            return genuine(queries, keys, values, attn_mask=seen)

        return attention

    return replaced(functional, "scaled_dot_product_attention", make)


def next_bytes_of_another_sequence() -> Fault:
    """The bytes that follow are those of another sequence of the batch."""

    def make(genuine: Callable[..., Any]) -> Any:
        def load(loader: Loader, indices: Any) -> Any:
            batch = genuine(loader, indices)
            return replace(batch, labels=batch.labels.roll(1, 0))

        return load

    return replaced(Loader, "_load", make)


def half_of_the_bits() -> Fault:
    """Validations count half of the bits of each sequence, the evaluation of the ensemble all."""

    def make(genuine: Callable[..., Any]) -> Any:
        return lambda logits, y: genuine(logits, y) / 2

    return replaced(text_validation, "costs", make)


# --- custom kernels


def queries_and_keys_exchanged() -> Fault:
    """The custom kernel of attention takes keys for queries, forward and backward."""

    def make(genuine: Callable[..., None]) -> Any:
        def forward(shape: Any, q: Any, k: Any, *rest: Any) -> None:
            genuine(shape, k, q, *rest)

        return forward

    return replaced(attention_kernel, "forward", make)


def gradient_of_keys_lost() -> Fault:
    """The custom kernel of attention gives no gradient of the keys."""

    def make(genuine: Callable[..., Any]) -> Any:
        def backward(ctx: Any, *gradients: Tensor) -> Any:
            dx, *others = genuine(ctx, *gradients)
            dx.chunk(3, -1)[1].zero_()
            return dx, *others

        return staticmethod(backward)

    return replaced(sequences.CausalAttention, "backward", make)


def gradient_of_a_norm_lacks_a_term() -> Fault:
    """The custom kernel of a sum and its norm takes the root mean square for a constant."""

    def make(genuine: Callable[..., Any]) -> Any:
        def backward(ctx: Any, beside: Tensor | None, g: Tensor) -> Any:
            x, weight, factors = ctx.saved_tensors
            *_, dweight, _ = genuine(ctx, beside, g)
            dx = g * weight * factors.view(*x.shape[:-1], 1) + (0 if beside is None else beside)
            return dx, dx, dweight, None

        return staticmethod(backward)

    return replaced(sequences.AddedNorm, "backward", make)


def gradient_of_a_sum_lost() -> Fault:
    """The custom kernel of a sum and its norm leaves out the gradient by later layers that read the sum."""

    def make(genuine: Callable[..., Any]) -> Any:
        return staticmethod(lambda ctx, beside, g: genuine(ctx, None, g))

    return replaced(sequences.AddedNorm, "backward", make)


def gradients_not_clipped() -> Fault:
    """Gradients are taken as they are, whatever CLIP says."""
    return replaced(Clipping, "clip", lambda genuine: lambda self, scale: None)


def norm_of_one_tensor() -> Fault:
    """The norm of the first tensor of weights counts as that of the gradient."""

    def make(genuine: Callable[..., Any]) -> Any:
        return lambda tensors, *given: [genuine(tensors, *given)[0]] + [torch.zeros(()) for _ in tensors[1:]]

    return replaced(torch, "_foreach_norm", make)
