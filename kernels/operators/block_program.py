"""The passes of a residual block as programs (kernels/cpu/program.py): what is computed, in which order, from where.

Where a product is the last that adds to the gradient of a value, its epilogue adds the rest of that gradient, and takes
the sums of the batch norm that has made the value; that of the block's input too if another block has made it.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..batch_norm import numba_cpu as batch_norm
from ..conv2d import Shape
from ..cpu import epilogue
from ..cpu.channel_sums import ChannelSums
from ..cpu.program import Address, Number
from ..spec import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT
from .block_plan import Named, Norm, Plan, Rows, norm_at


class Before(NamedTuple):
    """The batch norm that has made the block's input: whether it ends in a ReLU, and whether something was added."""

    relu: bool
    is_cut_off: bool


def forward_program(block: Plan) -> Named:
    """Fills convolved0 ... and value1 ... from value0, weights0, scale0, shift0, mean0 and variance0 (running) ..."""
    rows, one = Rows(block.one), block.one
    for number, (layer, shape, norm) in enumerate(zip(block.layers, block.shapes, block.norms, strict=True)):
        c, y = rows.filled(f"convolved{number}", shape.y), rows.filled(f"value{number + 1}", shape.y)
        table, sums = _place(rows, norm)
        then = rows.other(epilogue.moments(one, table, norm.channels, sums))
        arrays = (rows.at(f"value{layer.source}"), rows.at(f"weights{number}"), rows.at(c))
        rows.add_product(FORWARD, shape, block.threads, arrays, then)
        added = layer.other is not None
        stored = batch_norm.forward_plan(one, _pixels(shape), norm.channels, added, block.threads)
        passed = (rows.at(c), rows.at(f"value{layer.other}") if added else 0, rows.at(y))
        running = (rows.at(f"mean{number}"), rows.at(f"variance{number}"), layer.norm.momentum)
        vectors = _vectors(rows, block, number)
        words = batch_norm.forward_words(stored, layer.relu, table, True, passed, vectors, running)
        rows.add(batch_norm.instruction(False, one, words), stored)
    return rows.named(f"value{len(block.layers)}")


def _place(rows: Rows, norm: Norm, workspace: str = "workspace") -> tuple[Address, ChannelSums]:
    """The table of a batch norm, and its sums."""
    address: Any = rows.at(workspace, norm.sums.address)  # an integer when the program runs
    return rows.at(workspace, norm.table), norm.sums._replace(address=address)


def _vectors(rows: Rows, block: Plan, number: int) -> tuple[Any, ...]:
    norm = block.norms[number]
    moments = rows.at("workspace", norm.mean), rows.at("workspace", norm.variance)
    return rows.at(f"scale{number}"), rows.at(f"shift{number}"), *moments, block.layers[number].norm.eps


def _pixels(shape: Shape) -> int:
    images, _, height, width = shape.y
    return images * height * width


class Unsupported(Exception):
    """A block whose gradients a program cannot compute."""


def backward_program(block: Plan, first: bool, wanted: Sequence[bool], before: Before | None) -> Named:
    """Fills the gradients of parameters, dweights0 ... if wanted, dscale0, dshift0 ...; and of value0 if `first`.

    It reads what the forward program has, "gradient" of the last value, "summed" (1 if the sums of its batch norm are
    taken, else 0), and with `before`, the norm that has made value0, "before" (its workspace) and "convolved" (its x).
    """
    writer = Backward(block, before)
    for number in reversed(range(len(block.layers))):
        writer.add_layer(number, first, wanted[number])
    return writer.rows.named(writer.found.get(0))


class Backward:
    """The backward program of a block that is being written: the arrays that have the gradients of values."""

    def __init__(self, block: Plan, before: Before | None) -> None:
        self.rows, self._block, self._before = Rows(block.one), block, before
        last = len(block.layers)
        self.found, self._own = {last: "gradient"}, set[int]()  # own: values whose array nobody else has
        self._summed: dict[int, Number] = {last: self.rows.at("summed")}

    def add_layer(self, number: int, first: bool, wanted: bool) -> None:
        """The gradients by a layer; first: also those of the block's input."""
        layer, rows, shape = self._block.layers[number], self.rows, self._block.shapes[number]
        dc = self._add_norm(number)
        if layer.source or first:
            self._add_input_gradient(number, dc)
        if wanted:
            filled = rows.filled(f"dweights{number}", shape.w)
            arrays = (rows.at(f"value{layer.source}"), rows.at(filled), rows.at(dc))
            rows.add_product(WEIGHT_GRADIENT, shape, self._block.threads, arrays)

    def _add_norm(self, number: int) -> str:
        """The backward pass of a batch norm; returns the array with the gradient of its x."""
        block, rows, value = self._block, self.rows, number + 1
        layer, shape, norm = block.layers[number], block.shapes[number], block.norms[number]
        g, own, passed_on = self.found.pop(value), value in self._own, layer.other is not None and not layer.is_cut_off
        dc = g if own and not passed_on else rows.filled(f"dconvolved{number}", shape.y)
        dother = rows.filled(f"dother{number}", shape.y) if layer.is_cut_off else None
        arrays = (
            rows.at(g), rows.at(f"convolved{number}"), rows.at(f"value{value}") if dother else rows.at(dc),
            rows.at(dc), rows.at(dother) if dother else 0,
        )
        gradients = [rows.at(rows.filled(f"{name}{number}", (norm.channels,))) for name in ("dscale", "dshift")]
        stored = batch_norm.backward_plan(block.one, _pixels(shape), norm.channels, bool(dother), block.threads)
        table, _ = _place(rows, norm)
        summed, vectors = self._summed.get(value, 0), _vectors(rows, block, number)
        words = batch_norm.backward_words(stored, layer.relu, table, summed, arrays, vectors, gradients)
        rows.add(batch_norm.instruction(True, block.one, words), stored)
        if layer.other is not None:
            self._pass_on(layer.other, dother or g, own or dother is not None)
        return dc

    def _pass_on(self, value: int, gradient: str, own: bool) -> None:
        if value in self.found:
            raise Unsupported("a value that is added after another layer has read it")
        self.found[value] = gradient
        if own:
            self._own.add(value)

    def _add_input_gradient(self, number: int, dc: str) -> None:
        block, rows, value = self._block, self.rows, self._block.layers[number].source
        made = rows.filled(f"dvalue{number}", block.shapes[number].x)
        rest = self.found.get(value)
        added = None if rest is None else rows.at(rest, less=made)
        then: Number = epilogue.NONE
        if self._is_last(value, number) and (value or self._before):
            then = rows.other(self._sums(value, made, added))
            self._summed[value] = 1
        elif added is not None:
            then = rows.other(epilogue.addition(block.one, block.shapes[number].channels, added))
        arrays = (rows.at(dc), rows.at(f"weights{number}"), rows.at(made))
        rows.add_product(INPUT_GRADIENT, block.shapes[number], block.threads, arrays, then)
        self.found[value] = made
        self._own.add(value)

    def _is_last(self, value: int, number: int) -> bool:
        """Whether no layer before this one adds to the gradient of a value."""
        return not any(value in (layer.source, layer.other) for layer in self._block.layers[:number])

    def _sums(self, value: int, made: str, added: Address | None) -> epilogue.Numbers:
        """The epilogue that takes the sums of the batch norm that has made a value."""
        rows, one, x = self.rows, self._block.one, f"convolved{value - 1}" if value else "convolved"
        if value:
            norm, layer = self._block.norms[value - 1], self._block.layers[value - 1]
            relu, is_cut_off, workspace = layer.relu, layer.is_cut_off, "workspace"
        else:
            assert self._before is not None, "the norm of the block's input is known"
            (relu, is_cut_off), workspace = self._before, "before"
            norm = norm_at(0, self._block.shapes[0].channels, one.itemsize, 1)
        table, sums = _place(rows, norm, workspace)
        y = rows.at(f"value{value}", less=made) if is_cut_off else None
        return epilogue.gradients(one, table, norm.channels, rows.at(x, less=made), y, added, relu, sums)
