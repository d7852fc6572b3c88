"""The layers of a residual block as one function of torch: each pass is one call of machine code."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from ..cpu.workspace import workspace
from .block_plan import Layer, Named, Plan
from .block_program import Before, Unsupported, backward_program, forward_program

LAST = torch.channels_last
PARAMETERS = 3  # of a layer: weights, scale and shift
INTEGER = 8  # bytes


class LastNorm:
    """The batch norm that has made a block's result, until the backward pass of the block.

    The block behind it may take the sums of its backward pass, of the gradient that it returns.
    """

    def __init__(self, block: Plan, held: Any, convolved: Tensor) -> None:
        """held: the workspace."""
        norm, layer = block.norms[-1], block.layers[-1]
        self.before = Before(layer.relu, layer.is_cut_off)
        self.threads = block.threads
        self.convolved: Tensor | None = convolved
        self._held, self._sums = held, norm.sums.address // INTEGER
        self.address = int(held.ctypes.data) + norm.mean
        self._summed: tuple[Tensor, int] | None = None
        self._is_clear = True

    def serves(self, threads: int) -> bool:
        """Whether so many threads can add to its sums, and its backward pass is still to come."""
        return self.convolved is not None and self.threads >= threads

    def clear(self) -> int:
        """Address of its place in the workspace, where the sums are 0 then."""
        if not self._is_clear:  # sums that nobody has used
            self._held[self._sums :] = 0
        self._is_clear, self._summed = False, None
        return self.address

    def promise(self, gradient: Tensor) -> None:
        """The sums are those of this gradient, as long as nothing is written to it."""
        self._summed = gradient, gradient._version

    def summed(self, gradient: Tensor) -> bool:
        """Whether the sums are those of this gradient.

        Autograd returns the tensor that a function has returned, unless it had to add another one. It adds in place
        only to tensors that nobody else holds.
        """
        promised, self._summed = self._summed, None
        found = promised is not None and promised[0] is gradient and promised[1] == gradient._version
        self._is_clear = found or self._is_clear
        return found


class Programs:
    """The programs of a block for images of one size: forward, and backward by what is wanted."""

    def __init__(self, block: Plan) -> None:
        self.block, self.forward = block, forward_program(block)
        self._backward: dict[Any, Named] = {}

    def are_possible(self) -> bool:
        """Whether there is a backward program."""
        try:
            self.backward(True, (True,) * len(self.block.layers), None)
        except Unsupported:
            return False
        return True

    def backward(self, first: bool, wanted: tuple[bool, ...], before: Before | None) -> Named:
        """See `backward_program`."""
        key = first, wanted, before
        if key not in self._backward:
            self._backward[key] = backward_program(self.block, *key)
        return self._backward[key]


def norm_before(x: Tensor) -> LastNorm | None:
    """The batch norm of a block that has made x, before the backward pass of that block."""
    return getattr(x.grad_fn, "last_norm", None)


class BlockFunction(Function):
    @staticmethod
    def forward(ctx: Any, programs: Programs, before: LastNorm | None, x: Tensor, *parameters: Tensor) -> Tensor:
        block, program = programs.block, programs.forward
        held = np.zeros(block.nbytes // INTEGER, np.int64)
        arrays = {"value0": _in_order(x), **_parameters(parameters)}
        for number, layer in enumerate(block.layers):
            mean, variance = layer.norm.running_mean, layer.norm.running_var
            assert mean is not None and variance is not None
            arrays[f"mean{number}"], arrays[f"variance{number}"] = mean, variance
        _run(program, arrays, held, x)
        _count(block.layers)
        count = len(block.layers)
        values = [arrays[f"value{at}"] if _is_read(block.layers, at) else None for at in range(count + 1)]
        convolved = [arrays[f"convolved{at}"] for at in range(count)]
        ctx.programs, ctx.norm_before, ctx.held = programs, before, held
        ctx.last_norm = LastNorm(block, held, convolved[-1])
        ctx.own_norm = ctx.last_norm
        ctx.save_for_backward(*parameters, *values, *convolved)
        made: Tensor = arrays[f"value{count}"]
        return made

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        g, count, before = gradients[0].resolve_neg(), len(ctx.programs.block.layers), ctx.norm_before
        saved, (_, _, first, *needs) = ctx.saved_tensors, ctx.needs_input_grad
        values, convolved = saved[PARAMETERS * count : -count], saved[-count:]
        if before is not None and not (first and before.serves(ctx.programs.block.threads)):
            before = None
        program = ctx.programs.backward(first, (*needs[::PARAMETERS],), None if before is None else before.before)
        arrays = {"gradient": _in_order(g), **_parameters(saved[: PARAMETERS * count])}
        arrays |= {f"value{at}": value for at, value in enumerate(values) if value is not None}
        arrays |= {f"convolved{at}": each for at, each in enumerate(convolved)}
        further = {"summed": int(ctx.own_norm.summed(g))}
        if before is not None:
            assert before.convolved is not None, "it serves"
            arrays["convolved"], further["before"] = before.convolved, before.clear()
        _run(program, arrays, ctx.held, g, further)
        dx = None if program.result is None else arrays[program.result]
        if before is not None and dx is not None:
            before.promise(dx)
        ctx.norm_before = ctx.last_norm = None  # each holds a tensor that is not needed any more
        ctx.own_norm.convolved = None
        found = (arrays.get(f"{name}{at}") for at in range(count) for name in ("dweights", "dscale", "dshift"))
        return None, None, dx, *found


def _run(
    program: Named, arrays: dict[str, Tensor], held: Any, like: Tensor, further: dict[str, int] | None = None
) -> None:
    """Run a program; what it fills is added to the arrays, with the type of `like`."""
    for name, size in program.fills.items():
        layout = LAST if len(size) > 1 else torch.contiguous_format
        arrays[name] = torch.empty(size, dtype=like.dtype, memory_format=layout)
    found = {name: array.data_ptr() for name, array in arrays.items()}
    found |= {"workspace": int(held.ctypes.data), "memory": workspace(program.nbytes), **(further or {})}
    program.program.run([found[name] for name in program.names])


def _parameters(parameters: Sequence[Tensor]) -> dict[str, Tensor]:
    """By name; weights channels last."""
    found = {}
    for number, begin in enumerate(range(0, len(parameters), PARAMETERS)):
        w, scale, shift = parameters[begin : begin + PARAMETERS]
        found[f"weights{number}"] = _in_order(w)
        found[f"scale{number}"], found[f"shift{number}"] = scale.contiguous(), shift.contiguous()
    return found


def _in_order(tensor: Tensor) -> Tensor:
    return tensor.contiguous(memory_format=LAST)


def _is_read(layers: Sequence[Layer], value: int) -> bool:
    """Whether the gradients need a value."""
    return any(layer.source == value for layer in layers) or (value > 0 and layers[value - 1].is_cut_off)


def _count(layers: Sequence[Layer]) -> None:
    """Count the batches of all norms."""
    counts = [layer.norm.num_batches_tracked for layer in layers if layer.norm.num_batches_tracked is not None]
    if counts:
        torch._foreach_add_(counts, 1)
