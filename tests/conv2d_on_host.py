"""Convolutions by kernels/conv2d/cuda/conv2d.cu, run on the host; the result and all memory around it are checked."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import cuda_on_host
import numpy as np
import torch
from gemm_on_host import STORED, Guarded, drawn, error_ratio, poisoned, values_of

from hpcai.kernels.arithmetic import UNIT_ROUNDOFF_FP32
from hpcai.kernels.conv2d import Shape
from hpcai.kernels.conv2d.cuda.autotune import OPERANDS, pitch
from hpcai.kernels.conv2d.cuda.padding import Convolution, launches, workspace_bytes
from hpcai.kernels.conv2d.cuda.tensors import layer_of
from hpcai.kernels.cuda.launch import Launch
from hpcai.kernels.cuda.tiling import Result, Tile
from hpcai.kernels.spec import DTYPES, FORWARD, INPUT_GRADIENT, fp32_tolerance

LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)  # permutations of the axes that move the channels to the end, and back


@dataclass(frozen=True)
class Case:
    """A direction of a layer, and the epilogue of its sums: names of further operands, factor and ReLU."""

    type: str
    direction: str
    tile: Tile
    shape: Shape
    given: tuple[str, ...] = ()
    factor: float = 1.0
    relu: bool = False
    processors: int = 4


class Convolved:
    """The memory of a case, and its launches."""

    def __init__(self, case: Case) -> None:
        self.case, generator = case, np.random.default_rng(3)
        self.task = Convolution(case.type, case.direction, layer_of(case.shape))
        sizes = {"x": case.shape.x, "w": case.shape.w, "g": case.shape.y}
        self.operands = {name: self._drawn(generator, sizes[name]) for name in OPERANDS[case.direction]}
        self.further = {name: self._further(generator, name) for name in case.given}
        self.size = tuple(case.shape.result(case.direction)[axis] for axis in LAST)
        self.result = Guarded(poisoned(1, int(np.prod(self.size)), STORED[self.task.kind.result]))
        self.workspace = Guarded(poisoned(1, workspace_bytes(self.task, case.tile), np.uint8))

    def _drawn(self, generator: np.random.Generator, size: tuple[int, ...]) -> Guarded:
        return Guarded(drawn(generator, (1, int(np.prod(size))), self.case.type))

    def _further(self, generator: np.random.Generator, name: str) -> Guarded:
        if name == "added":
            return self._drawn(generator, self.case.shape.y)
        return Guarded(generator.standard_normal((1, self.case.shape.filters), np.float32))

    @property
    def launches(self) -> list[Launch]:
        case, addresses = self.case, {name: each.address for name, each in self.further.items()}
        result = Result(self.result.address, pitch(self.task), **addresses, factor=case.factor, relu=case.relu)
        places = {name: each.address for name, each in self.operands.items()}
        work = self.workspace.address
        return launches(self.task, case.tile, case.processors, cuda_on_host.encoded, places, result, work)

    @property
    def readable(self) -> list[tuple[int, int]]:
        """From the first to the last element of each operand; and the copies that are made of operands."""
        return [each.bounds for each in (*self.operands.values(), self.workspace) if each.numbers.size]

    def run(self, schedule: str, changed: Mapping[str, Any] | None = None) -> None:
        """Compute the case under a schedule, kernels `changed` by other libraries; AssertionError if it is wrong."""
        self.result.memory[:] = self.result.before
        self.workspace.memory[:] = self.workspace.before
        for launch in self.launches:
            cuda_on_host.run(launch, schedule, (changed or {}).get(launch.program.name), self.readable)
        for name, each in {**self.operands, **self.further}.items():
            assert np.array_equal(each.memory, each.before), f"{name} has changed"
        self.result.check_surroundings("the result")
        self.workspace.check_surroundings("the workspace")
        assert self.error() <= 1, f"{self.case}, {schedule}: {self.error()} times the limit"

    def error(self) -> float:
        """The largest error relative to its limit; of integers the number of wrong elements."""
        found = values_of(self.result.numbers.reshape(self.size), self.task.kind.result)
        return error_ratio(found, *self.expected, exactly=self.case.type == "int8")

    @cached_property
    def expected(self) -> tuple[Any, Any]:
        """In float64, and the limit of each element: by verify.py, and the rounding of the epilogue."""
        case, dtype = self.case, DTYPES[self.case.type]
        sums = self._convolved(lambda values: values)
        root = np.sqrt(np.maximum(self._convolved(np.square), 0.0))
        given = {name: values_of(each.numbers, self._type_of(name)) for name, each in self.further.items()}
        times, added = case.factor * given.get("scale", 1.0), given.get("added", np.zeros(1))
        terms = [times * sums, given.get("bias", 0.0), added.reshape(self.size) if added.any() else 0.0]
        total = sum(terms)
        inner = case.shape.inner(case.direction)
        allowed = fp32_tolerance(inner) / UNIT_ROUNDOFF_FP32 * dtype.unit * np.abs(times) * root
        allowed = allowed + 3 * dtype.unit * sum(np.abs(term) for term in terms)
        if dtype.arithmetic.roundoff:
            spacing = 2 * dtype.arithmetic.roundoff * np.maximum(np.abs(total), dtype.arithmetic.normal)
            allowed = allowed + spacing
        return np.where(total < 0, 0.0, total) if case.relu else total, allowed

    def _type_of(self, name: str) -> str:
        return self.task.kind.result if name == "added" else "float32"

    def _convolved(self, function: Any) -> Any:
        """The convolution of `function` of the operands' values in float64, channels last."""
        shape, sizes = self.case.shape, {"x": self.case.shape.x, "w": self.case.shape.w, "g": self.case.shape.y}

        def tensor(name: str) -> torch.Tensor:
            stored_sizes = [sizes[name][axis] for axis in LAST]
            values = values_of(self.operands[name].numbers, self.task.kind.operand).reshape(stored_sizes)
            return torch.from_numpy(function(values).transpose(FIRST))

        one, other = (tensor(name) for name in OPERANDS[self.case.direction])
        window = (shape.stride, shape.padding, shape.dilation, shape.groups)
        if self.case.direction == FORWARD:
            found = torch.nn.functional.conv2d(one, other, None, *window)
        elif self.case.direction == INPUT_GRADIENT:
            found = torch.nn.grad.conv2d_input(shape.x, other, one, *window)
        else:
            found = torch.nn.grad.conv2d_weight(one, shape.w, other, *window)
        return found.permute(LAST).contiguous().numpy()


def check(cases: Iterable[Case]) -> None:
    """Each case is right under every schedule."""
    layers = [Convolved(case) for case in cases]
    cuda_on_host.build_all(launch.program for layer in layers for launch in layer.launches)
    for layer in layers:
        run_all(layer)


def run_all(layer: Convolved, changed: Mapping[str, Any] | None = None) -> None:
    """Compute it under every schedule, as `run` does."""
    for schedule in cuda_on_host.SCHEDULES:
        layer.run(schedule, changed)
