"""The first steps by our kernels, beside the same steps by the vendor's: do they learn the same, and how fast?

Both begin with the same weights, on the same samples. Rounding alone makes them differ, and steps make differences
grow. How far it may bring them is found by more trainings by the vendor's kernels, whose weights are nudged at the
beginning: each by the error that the element-wise check allows a sum of so many terms, 8 sqrt(N) u, or by half a unit
of the type that products are made of if that is more, up or down by chance.
"""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from mpi4py import MPI

from hpcai import clock
from hpcai.comm import reduce
from hpcai.inputfile import Case
from hpcai.kernels.spec import CUSTOM, VENDOR, fp32_tolerance
from hpcai.models.module import Layers
from hpcai.result.beside import NUDGED, share
from hpcai.train.loop import Training
from hpcai.train.precision import PRECISIONS
from hpcai.train.providers import give_back

Json = dict[str, Any]
Batch = tuple[torch.Tensor, torch.Tensor]

STEPS = 4
NUDGES = 3
RATE = 0.1  # of the recipe's highest: no warm-up, which would leave the weights as they are, and no divergence
SAMPLES = 16  # of a batch, at most, whose losses are compared
ROUNDS, SECONDS = 5, 4.0  # of the timing, at most, after a round that does not count


@dataclass(frozen=True)
class _Trial:
    """A network by somebody's kernels, trained from where it stands, without its group."""

    module: Layers
    training: Training

    def step(self, batch: Batch) -> torch.Tensor:
        """Loss of a batch; then its gradients are there."""
        x, y = batch
        loss: torch.Tensor = self.training.objective(self.module, x, y, 0)
        self.module.zero_grad(set_to_none=True)
        loss.backward()
        return loss.detach()

    def losses(self, batch: Batch) -> list[float]:
        """Of STEPS steps of plain gradient descent."""
        found = []
        for _ in range(STEPS):
            found.append(float(self.step(batch)))
            with torch.no_grad():
                for parameter in self.module.parameters():
                    assert parameter.grad is not None, "every parameter takes part in every call"
                    parameter.sub_(parameter.grad, alpha=RATE * self.training.recipe.peak_rate)
        return found

    def seconds(self, batch: Batch, device: torch.device) -> float:
        """Of one forward and backward pass."""
        clock.synchronise(device)
        begin = clock.now()
        self.step(batch)
        clock.synchronise(device)
        return clock.now() - begin


def beside(case: Case, training: Training, comm: MPI.Comm, device: torch.device) -> Json:
    """Losses of the rank that differs most, and seconds of a pass of the slowest one; the same on all ranks of `comm`.

    The training is left as it was. Collective over `comm`.
    """
    ((x, y, _),) = training.loader([training.sampler.draw(training.shard.step_positions(0))])
    few = x[:SAMPLES], y[:SAMPLES]
    losses = {
        CUSTOM: _Trial(_copied(training), training).losses(few),
        VENDOR: _Trial(_vendors(training), training).losses(few),
        NUDGED: [
            _Trial(_nudged(_vendors(training), case["PRECISION"], draw), training).losses(few) for draw in range(NUDGES)
        ],
    }
    _, worst = comm.allreduce((share(losses), comm.rank), MPI.MAX)
    return {"losses": comm.bcast(losses, worst), **_paces(training, (x, y), comm, device)}


def _copied(training: Training) -> Layers:
    module: Any = deepcopy(training.state.module)
    copy: Layers = module.train()
    return copy


def _vendors(training: Training) -> Layers:
    module = _copied(training)
    give_back(module)
    return module


def _nudged(module: Layers, precision: str, draw: int) -> Layers:
    """Every weight a little larger or smaller, by a draw that is the same everywhere."""
    generator = torch.Generator().manual_seed(draw)
    arithmetic = PRECISIONS[precision].arithmetic
    with torch.no_grad():
        for weight in (parameter for parameter in module.parameters() if parameter.ndim > 1):
            nudge = max(fp32_tolerance(weight[0].numel()), 2.0**-arithmetic.significand)
            signs = torch.randint(0, 2, weight.shape, generator=generator).to(weight.device, torch.float32) * 2 - 1
            weight.copy_(weight.float() * (1 + nudge * signs))
    return module


def _paces(training: Training, batch: Batch, comm: MPI.Comm, device: torch.device) -> Json:
    """Seconds of a pass over a full batch, ours and the vendor's in turn; of each the fastest counts."""
    modules = {"custom_seconds": _copied(training), "vendor_seconds": _vendors(training)}
    trials = {name: _Trial(module, training) for name, module in modules.items()}
    first = {name: trial.seconds(batch, device) for name, trial in trials.items()}
    whole = comm.allreduce(sum(first.values()), MPI.MAX)
    rounds = [
        {name: trial.seconds(batch, device) for name, trial in trials.items()}
        for _ in range(min(max(int(SECONDS / whole), 1), ROUNDS))
    ]
    return reduce.largest(comm, {name: min(each[name] for each in rounds) for name in trials})
