"""Comparison of a divided model's evaluation with that by the simple path of replays."""

from typing import Any

import torch
from mpi4py import MPI
from torch import Tensor

from hpcai.formulas.precision import PRECISIONS
from hpcai.formulas.score import LARGEST
from hpcai.train.loop import Training


def evaluation_deviation(trained: Training, precision: str) -> float | None:
    """The largest difference of a sample's outputs / bound, of the first batch of an epoch; None of undivided models.

    The bound is the share by which rounding may change a replayed gradient, of the outputs' root mean square norm. The
    same on every active rank; collective over these.
    """
    group = trained.group
    if group.divided.parts == 1:
        return None
    ((x, y, _),) = trained.loader([trained.sampler.draw(trained.shard.step_positions(0))])
    with torch.inference_mode():
        trained.state.module.eval()
        outputs = trained.execution.eval_module(x)
        simple = _by_simple_path(trained, x, y)
        trained.state.module.train()
    own = max((_worst(outputs, each) / PRECISIONS[precision].rounding for each in simple), default=0.0)
    return group.active.allreduce(min(own, LARGEST), MPI.MAX)


def _by_simple_path(trained: Training, x: Tensor, y: Tensor) -> list[Tensor]:
    """The outputs, in one list element; none on stages before the last one."""
    module: Any = trained.state.module
    found: list[Tensor] = []

    def keep(network: Any, x: Tensor, y: Tensor, step: int) -> Tensor:
        found.append(network(x))
        return torch.zeros((), device=y.device)

    with module.exchanges.replaying():
        trained.execution.alone(module, keep, x, y, 0, backward=False)
    return found


def _worst(outputs: Tensor, exact: Tensor) -> float:
    """Largest norm of a sample's difference / root mean square norm; samples without finite outputs are left out."""
    differences, norms = (outputs.double() - exact.double()).norm(dim=1), exact.double().norm(dim=1)
    known = norms.isfinite()
    if not known.any():
        return 0.0
    worst = float(differences[known].nan_to_num(LARGEST, LARGEST).max())
    return worst / max(float(norms[known].square().mean().sqrt()), torch.finfo(torch.float32).tiny)
