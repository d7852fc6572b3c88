"""Precisions of training: the type of each layer's products, tf32, and dynamic loss scaling for 16-bit gradients.

In every precision a network maps fp32 images to fp32 logits; its layers are converted here, once, before training. fp32
leaves the network unchanged. The stages of a pipeline send each other activations in the type that they have.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from hpcai.clock import synchronise
from hpcai.formulas.precision import PRECISIONS
from hpcai.kernels.arithmetic import FP32, INT8, TF32
from hpcai.kernels.check import converts
from hpcai.kernels.conv2d.vendor import convolve
from hpcai.kernels.providers import Unavailable
from hpcai.machine import device as devices
from hpcai.train import quantised

Forward = Callable[..., Tensor]
TF32_SIZE = 256  # size of the product that shows whether tf32 is used
TF32_LOST = 2.0**-12  # of 1 + this, tf32 keeps 1
FORCING_TF32 = "NVIDIA_TF32_OVERRIDE"  # environment variable that overrides a program's setting


def kind_of(name: str) -> torch.dtype:
    """The torch type of the inputs and results of a precision's products."""
    kind: torch.dtype = getattr(torch, PRECISIONS[name].arithmetic.stored)
    return kind


@contextmanager
def switched(name: str) -> Iterator[None]:
    """While the block runs, products of fp32 tensors use tf32 as the precision says; restored afterwards."""
    before = devices.allow_tf32(PRECISIONS[name].arithmetic is TF32)
    try:
        yield
    finally:
        devices.allow_tf32(before)


def apply(name: str, module: nn.Module, device: torch.device) -> None:
    """Convert a module to a precision, from fp32 images to fp32 logits, before its optimiser and replica exist.

    16-bit convolutions are computed as `hpcai.kernels.conv2d.vendor.convolve` does, so that the residuals are those of
    what trains. Normalisation keeps its parameters and statistics in fp32 in every precision.
    """
    precision, kind = PRECISIONS[name], kind_of(name)
    if precision.quantised:
        quantised.quantise(module)
    if kind == torch.float32:
        return
    if precision.pure:
        for part in _products(module):
            part.to(kind)
    if converts(device.type, precision.arithmetic):
        for part in _products(module):
            if isinstance(part, nn.Conv2d):
                part.forward = partial(_converted, part, kind, device.type)  # type: ignore[method-assign]
    # Partial functions, not closures: a deep copy of the module has to compute with its own layers.
    inner = module.forward
    if precision.pure:
        module.forward = partial(_pure, inner, None if getattr(module, "received", ()) else kind)
    else:
        module.forward = partial(_mixed, inner, kind, device.type)


def _products(module: nn.Module) -> Iterator[nn.Module]:
    return (part for part in module.modules() if isinstance(part, nn.Conv2d | nn.Linear))


def _pure(inner: Forward, kind: torch.dtype | None, images: Tensor, *others: Any) -> Any:
    return _in_fp32(inner(images if kind is None else images.to(kind), *others))


def _mixed(inner: Forward, kind: torch.dtype, device: str, images: Tensor, *others: Any) -> Any:
    with torch.autocast(device, dtype=kind, cache_enabled=False):  # each weight is used once, except shared ones
        output = inner(images, *others)
    return _in_fp32(output)


def _in_fp32(output: Any) -> Any:
    """Logits in fp32; what a stage sends as it is."""
    return output.float() if isinstance(output, Tensor) else output


def _converted(part: nn.Conv2d, kind: torch.dtype, device: str, images: Tensor) -> Tensor:
    with torch.autocast(device, enabled=False):
        bias = None if part.bias is None else part.bias.to(kind)
        return convolve(images.to(kind), part.weight.to(kind), bias, part, converted=True)


class LossScaler:
    """Dynamic loss scaling without synchronisation (Micikevicius et al., Mixed Precision Training, 2018).

    The loss is multiplied by `scale`, and a fused optimiser divides the gradients by it. A step with a gradient that is
    not finite is left out by the optimiser, on the device, and the scale halved; after INTERVAL steps in a row it is
    doubled. The gradients of replicas are averaged before, so all of them leave out the same steps; `shared` takes the
    largest of a number over the ranks that have other gradients of the same step, None where there are none.

    16-bit parameters on a CPU have no fused optimiser. There `check` divides their gradients, in their type, and `step`
    leaves out a step: to read a number in the memory of the host, nothing has to be waited for.
    """

    shared: Callable[[Tensor], None] | None = None
    FIRST = 2.0**16
    GROWTH, BACKOFF, INTERVAL = 2.0, 0.5, 2000

    def __init__(self, optimiser: torch.optim.Optimizer, device: torch.device) -> None:
        self._optimiser = optimiser
        self._by_type: dict[torch.dtype, list[nn.Parameter]] = {}
        for parameter in (p for group in optimiser.param_groups for p in group["params"]):
            self._by_type.setdefault(parameter.dtype, []).append(parameter)
        self._factor = torch.ones((), device=device)  # of the gradients, in `check`
        self._overflow = torch.zeros((), device=device)
        self.scale = torch.full((), self.FIRST, device=device)
        self.successes = torch.zeros((), dtype=torch.int32, device=device)  # steps since the scale last changed
        self.skipped_steps = torch.zeros((), dtype=torch.float64, device=device)
        self.skipped_samples = torch.zeros((), dtype=torch.float64, device=device)
        self._fused: bool = getattr(optimiser, "_step_supports_amp_scaling", False)  # as torch's own scaler asks
        self._overflow_on_host = None if self._fused else self._overflow.numpy()  # the same memory
        if self._fused:
            # torch's own scaler sets these during a step; a fused optimiser reads both on the device.
            optimiser.grad_scale, optimiser.found_inf = self.scale, self._overflow  # type: ignore[attr-defined]

    @property
    def overflow(self) -> Tensor:
        """1 if a gradient of the latest step was not finite, else 0; on the device."""
        return self._overflow

    @property
    def left(self) -> Tensor | None:
        """By what a fused optimiser divides the gradients after `check`; None where they are divided by then."""
        return self.scale if self._fused else None

    def check(self, samples: int) -> None:
        """Check that all gradients of `samples` samples are finite.

        Call it between backward pass and `step`.
        """
        if not self._fused:
            torch.reciprocal(self.scale, out=self._factor)
        self._overflow.zero_()
        for parameters in self._by_type.values():
            gradients = [p.grad for p in parameters if p.grad is not None]
            torch._amp_foreach_non_finite_check_and_unscale_(gradients, self._overflow, self._factor)
        if self.shared is not None:
            self.shared(self._overflow)
        self.skipped_steps.add_(self._overflow)
        self.skipped_samples.add_(self._overflow, alpha=samples)

    def step(self) -> None:
        """The optimiser's step, left out after overflow."""
        if not self._overflow_on_host:  # None: the optimiser leaves it out
            self._optimiser.step()

    def update(self) -> None:
        """Set the scale of the next step; call it after `step`."""
        torch._amp_update_scale_(self.scale, self.successes, self._overflow, self.GROWTH, self.BACKOFF, self.INTERVAL)

    def tensors(self) -> dict[str, Tensor]:
        """The tensors of the scaler's state: all that the next step depends on, and the counters."""
        names = ("scale", "successes", "skipped_steps", "skipped_samples")
        return {name: getattr(self, name) for name in names}


def scaler(name: str, optimiser: torch.optim.Optimizer, device: torch.device) -> LossScaler | None:
    """The loss scaler of a precision; None if it needs none."""
    return LossScaler(optimiser, device) if PRECISIONS[name].scaled else None


@cache
def refusal(name: str, device: torch.device) -> str:
    """Why a precision is not available on this device, found by trying; empty if it is."""
    where, wanted = f"PRECISION {name} on {devices.name(device)}", PRECISIONS[name].arithmetic
    if wanted is INT8 and device.type == "cpu":
        return ""  # custom kernels, which run on any CPU and are compiled when first used
    try:
        with switched(name):
            _try(name, device)
            rounds = wanted in (FP32, TF32) and _rounds_to_tf32(device)
    except Unavailable as error:
        return f"{where}: {error}"
    except RuntimeError as error:
        return f"{where}: torch says {str(error).splitlines()[0]}"
    if wanted is TF32 and not rounds:
        return f"{where}: torch does not round the fp32 inputs of a product to tf32 there"
    if wanted is FP32 and rounds:
        return f"{where}: inputs of products are rounded to tf32, though not asked to; allowed: no {FORCING_TF32}"
    return ""


def _try(name: str, device: torch.device) -> None:
    """Run one backward pass of a convolution, a batch norm and a matrix product."""
    module = nn.Sequential(
        nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 64, 16)
    ).to(device)
    apply(name, module, device)
    images = torch.zeros(8, 16, 8, 8, device=device).to(memory_format=torch.channels_last)
    labels = torch.zeros(8, dtype=torch.int64, device=device)
    with torch.enable_grad():
        cross_entropy(module(images), labels).backward()
    synchronise(device)


def _rounds_to_tf32(device: torch.device) -> bool:
    left = torch.full((TF32_SIZE, TF32_SIZE), 1.0 + TF32_LOST, device=device)
    return bool((left @ torch.ones_like(left) == TF32_SIZE).all())
