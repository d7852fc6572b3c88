"""Comparison of a classifier's evaluation with that by the simple path of replays, in one batch of the validation."""

from secrets import randbelow
from typing import Any

import torch
from mpi4py import MPI
from torch import Tensor

from hpcai.formulas.precision import PRECISIONS
from hpcai.formulas.score import LARGEST
from hpcai.train.loop import Training
from hpcai.train.objective import Classification
from hpcai.train.providers import vendor_kernels
from hpcai.train.validation import Validation


def evaluation_deviation(trained: Training, precision: str) -> float | None:
    """The largest difference of a sample's outputs / bound, of a batch drawn on each rank; None of detectors.

    The bound is the share by which rounding may change a replayed gradient, of the outputs' root mean square norm. It
    is the largest number there is where the last validation found other classes than the simple path's outputs allow.
    The same on every active rank; collective over these.
    """
    if not isinstance(trained.objective, Classification):
        return None  # a small difference may add or remove a detection
    return trained.group.active.allreduce(deviation_of_rank(trained, precision), MPI.MAX)


def deviation_of_rank(trained: Training, precision: str) -> float:
    """That of a batch drawn on this rank, 0 if it evaluates none. Collective over the parts of a model."""
    validation = trained.validation
    if not validation.shard.steps:
        return 0.0
    step = trained.group.parts.bcast(randbelow(validation.shard.steps))
    return min(_deviation(trained, validation, step, PRECISIONS[precision].rounding), LARGEST)


@torch.inference_mode()
def _deviation(trained: Training, validation: Validation, step: int, rounding: float) -> float:
    ((x, y, indices),) = validation.loader([validation.shard.step_positions(step)])
    trained.state.module.eval()
    outputs, simple = trained.execution.eval_module(x), _by_simple_path(trained, x, y)
    trained.state.module.train()
    outputs, simple = outputs.flatten(0, -2), [exact.flatten(0, -2) for exact in simple]  # places of sequences
    classes = validation.content.classes_of(indices)
    found = outputs.argmax(1) if classes is None else classes.flatten()  # a resumed run may have validated nothing
    worst = [_worst(outputs, exact) / rounding for exact in simple]
    possible = all(_possible(found, exact, rounding) for exact in simple)
    return max(worst, default=0.0) if possible else LARGEST


def _by_simple_path(trained: Training, x: Tensor, y: Tensor) -> list[Tensor]:
    """The outputs, in one list element; none on stages before the last one."""
    module: Any = trained.state.module
    found: list[Tensor] = []

    def keep(network: Any, x: Tensor, y: Tensor, step: int) -> Tensor:
        found.append(network(x))
        return torch.zeros((), device=y.device)

    with vendor_kernels(module), module.exchanges.replaying():
        trained.execution.alone(module, keep, x, y, 0, backward=False)
    return found


def _worst(outputs: Tensor, exact: Tensor) -> float:
    """Largest norm of a sample's difference / root mean square norm; samples without finite outputs are left out."""
    known = exact.isfinite().all(1)
    if not known.any():
        return 0.0
    differences = (outputs.double() - exact.double()).norm(dim=1)[known]
    return float(differences.nan_to_num(LARGEST, LARGEST).max()) / _size(exact[known])


def _possible(classes: Tensor, exact: Tensor, rounding: float) -> bool:
    """Whether samples may be of the classes that the validation found, where rounding may exchange ones that are close.

    Samples without finite outputs are left out.
    """
    finite = exact.isfinite().all(1)
    known, found = exact[finite].double(), classes[finite].long()
    lacking = known.max(1).values - known.gather(1, found[:, None])[:, 0]
    return bool((lacking <= 2 * rounding * _size(known)).all())


def _size(outputs: Tensor) -> float:
    """Root mean square norm of samples' outputs, above 0."""
    norms = outputs.double().norm(dim=1)
    return max(float(norms.square().mean().sqrt()) if len(norms) else 0.0, torch.finfo(torch.float32).tiny)
