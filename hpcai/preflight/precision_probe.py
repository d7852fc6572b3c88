"""Precision probe: measures whether a precision is computed natively here or emulated."""

from dataclasses import dataclass, replace
from math import prod

import torch
from mpi4py import MPI

from hpcai import clock
from hpcai.estimate.memory import PROBED_BYTES, PROBED_OPERATIONS
from hpcai.formulas.precision import PRECISIONS
from hpcai.kernels import conv2d, operators
from hpcai.kernels.check import converts
from hpcai.kernels.conv2d.vendor import convolve
from hpcai.kernels.layers import LayerShape, spec_of
from hpcai.networks.graph import Graph
from hpcai.preflight.layer_products import products
from hpcai.record.preflight import PrecisionProbe
from hpcai.train.precision import kind_of, switched

SECONDS = 1.0  # seconds of the whole probe, approximately
FEWEST, MOST = 3, 50  # timed passes of each precision


@dataclass(frozen=True)
class _Pass:
    """A forward and backward pass of one layer in one precision, with inputs already of its type."""

    precision: str
    shape: LayerShape
    device: torch.device
    x: torch.Tensor
    w: torch.Tensor
    g: torch.Tensor

    @classmethod
    def of(cls, precision: str, shape: LayerShape, device: torch.device) -> "_Pass":
        kind = kind_of(precision)
        generator = torch.Generator(device).manual_seed(1)
        made = [torch.randn(size, device=device, generator=generator) for size in (shape.x, shape.w, shape.y)]
        x, w, g = (
            tensor.to(kind, memory_format=torch.channels_last if tensor.ndim == 4 else torch.contiguous_format)
            for tensor in made
        )
        return cls(precision, shape, device, x.requires_grad_(), w.requires_grad_(), g)

    def seconds(self) -> float:
        """Seconds of one pass."""
        clock.synchronise(self.device)
        begin = clock.now()
        with switched(self.precision):
            self._run()
        clock.synchronise(self.device)
        return clock.now() - begin

    def _run(self) -> None:
        if PRECISIONS[self.precision].quantised:
            y = self._int8_forward()
        elif isinstance(self.shape, conv2d.Shape):
            conversion = converts(self.device.type, PRECISIONS[self.precision].arithmetic)
            y = convolve(self.x, self.w, None, self.shape, conversion)
        else:
            y = torch.matmul(self.x, self.w.t())
        torch.autograd.grad(y, (self.x, self.w), self.g)

    def _int8_forward(self) -> torch.Tensor:
        """int8: the forward product of bytes; the gradients are the vendor's."""
        if isinstance(self.shape, conv2d.Shape):
            return operators.convolution_int8(self.x, self.w, self.shape, custom=())
        return operators.dense_int8(self.x, self.w, custom=())


def probe(graph: Graph, precision: str, comm: MPI.Comm, device: torch.device) -> PrecisionProbe:
    """Seconds of forward and backward pass of the network's heaviest layer, in fp32 and in `precision`.

    Outside all clocks. The passes alternate; the fastest of each counts, of the slowest rank. `converted`: whether
    16-bit convolutions have to be computed in fp32 on some rank. Collective over `comm`, the same on all its ranks.
    """
    shape = _heaviest(graph, device)
    plain, wanted = _Pass.of("fp32", shape, device), _Pass.of(precision, shape, device)
    _ = plain.seconds(), wanted.seconds()  # in the first passes libraries choose algorithms
    rounds = round(SECONDS / (plain.seconds() + wanted.seconds()))
    times = [(plain.seconds(), wanted.seconds()) for _ in range(min(max(rounds, FEWEST), MOST))]
    fp32_seconds, seconds = map(min, zip(*times, strict=True))
    converted = converts(device.type, PRECISIONS[precision].arithmetic)
    return PrecisionProbe(
        fp32_seconds=comm.allreduce(fp32_seconds, MPI.MAX),
        seconds=comm.allreduce(seconds, MPI.MAX),
        converted=bool(comm.allreduce(int(converted), MPI.MAX)),
    )


def _operations(shape: LayerShape) -> int:
    return spec_of(shape).operations(shape)


def _heaviest(graph: Graph, device: torch.device) -> LayerShape:
    """The layer with most operations, with enough samples for a measurable pass."""
    shape = max((shape for shape, _ in products(graph, 1)), key=_operations)
    image = 4 * (prod(shape.x) + prod(shape.y))
    most = PROBED_OPERATIONS[device.type == "cuda"]
    return replace(shape, batch=max(1, min(most // _operations(shape), PROBED_BYTES // image)))
