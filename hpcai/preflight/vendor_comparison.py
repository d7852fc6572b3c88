"""The first steps by our kernels, beside the same steps by the vendor's: do they learn the same, and how fast?

All begin with the same weights, on the same samples. Rounding alone makes them differ, and steps make differences grow.
How far it may bring them is found by more trainings by the vendor's kernels, whose weights are nudged at the beginning:
each by the error that the element-wise check allows a sum of so many terms, 8 sqrt(N) u, or by half a unit of the type
that products are made of if that is more, up or down by chance. What these differ by at most, on any rank, is what
rounding makes.

Compared are the losses of some steps on a few samples, the loss of these in evaluation then, of networks that tell
classes (a detector makes boxes there), and what one pass over a full batch leaves in each layer: gradients, and
statistics of batch norm.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from mpi4py import MPI
from torch import Tensor, nn

from hpcai import clock
from hpcai.comm import reductions
from hpcai.formulas.precision import PRECISIONS
from hpcai.inputfile import Case
from hpcai.kernels.providers import VENDOR
from hpcai.kernels.spec import fp32_tolerance
from hpcai.machine import memory
from hpcai.models.module import Layers
from hpcai.networks.graph import Graph
from hpcai.result.beside import finite, furthest, gradient_share, pixels, statistics_share
from hpcai.train.loop import Training
from hpcai.train.objective import Classification
from hpcai.train.providers import give_back

Json = dict[str, Any]
Batch = tuple[Tensor, Tensor]
Left = dict[str, Tensor]  # what a pass leaves in each layer, by its name; vectors

STEPS = 4
RATE = 0.1  # of the recipe's highest: no warm-up, which would leave the weights as they are, and no divergence
SAMPLES = 8  # of a batch, at most, in these steps
DRAWS = 7  # of a loss, which is one number; of a layer's many
DRAWS_OF_LAYERS = 2
ROUNDS, SECONDS = 5, 4.0  # of the timing, at most, after a round that does not count


@dataclass(frozen=True)
class _Trial:
    """A network by somebody's kernels, trained from where it stands, without its group."""

    module: Layers
    training: Training

    def step(self, batch: Batch) -> Tensor:
        """Loss of a batch; then its gradients are there."""
        x, y = batch
        loss: Tensor = self.training.objective(self.module, x, y, 0)
        self.module.zero_grad(set_to_none=True)
        loss.backward()
        return loss.detach()

    def losses(self, batch: Batch) -> list[float]:
        """Of STEPS steps of plain gradient descent."""
        found, moving = [], _moving(self.module)
        for _ in range(STEPS):
            found.append(finite(float(self.step(batch))))
            with torch.no_grad():
                for parameter in moving:
                    assert parameter.grad is not None, "every parameter takes part in every call"
                    parameter.sub_(parameter.grad, alpha=RATE * self.training.recipe.peak_rate)
        return found

    def evaluated(self, batch: Batch) -> list[float]:
        """The loss as validation computes it, with the statistics that steps have left."""
        x, y = batch
        with torch.inference_mode():
            loss = self.training.objective(self.module.eval(), x, y, 0)
        self.module.train()
        return [finite(float(loss))]

    def lessons(self, batch: Batch) -> dict[str, list[float]]:
        """All that is compared of a few samples."""
        losses = {"losses": self.losses(batch)}
        tells_classes = isinstance(self.training.objective, Classification)
        return losses | ({"evaluated": self.evaluated(batch)} if tells_classes else {})

    def left(self, batch: Batch) -> tuple[Left, Left]:
        """Gradients and statistics of each layer after a pass."""
        self.step(batch)
        gradients, statistics = {}, {}
        for name, part in self.module.named_modules():
            gradients[name] = [parameter.grad for parameter in part.parameters(recurse=False)]
            statistics[name] = [buffer for buffer in part.buffers(recurse=False) if buffer.is_floating_point()]
        return _joined(gradients), _joined(statistics)

    def seconds(self, batch: Batch, device: torch.device) -> float:
        """Of one forward and backward pass."""
        clock.synchronise(device)
        begin = clock.now()
        self.step(batch)
        clock.synchronise(device)
        return clock.now() - begin


def beside_the_vendor(
    case: Case,
    graph: Graph,
    assemble: Callable[[], Training],
    comm: MPI.Comm,
    device: torch.device,
    phases: clock.Phases,
) -> Json:
    """`beside` as a part of a measurement, with its phase; nothing where the vendor's kernels train. Collective.

    `assemble` gives a training of the graph's network from its beginning.
    """
    if case["KERNELS"] == VENDOR:
        return {}
    with phases.measure("beside"):
        found = {"beside": beside(case, graph, assemble(), comm, device)}
    memory.give_back()
    return found


def beside(case: Case, graph: Graph, training: Training, comm: MPI.Comm, device: torch.device) -> Json:
    """Losses of the rank that differs most, the layer that does, and seconds of a pass of the slowest rank.

    The training is left as it was. Collective over `comm`, the same on all its ranks.
    """
    ((x, y, _),) = training.loader([training.sampler.draw(training.shard.step_positions(0))])
    return {
        **_losses(training, (x[:SAMPLES], y[:SAMPLES]), case["PRECISION"], comm),
        **_layers(case, graph, training, (x, y), comm),
        **_paces(training, (x, y), comm, device),
    }


def _losses(training: Training, batch: Batch, precision: str, comm: MPI.Comm) -> Json:
    theirs = _Trial(_vendors(training), training).lessons(batch)
    own = _Trial(_copied(training), training).lessons(batch)
    nudged = [_Trial(_nudged(_vendors(training), precision, draw), training).lessons(batch) for draw in range(DRAWS)]
    return {name: _held(own[name], losses, [each[name] for each in nudged], comm) for name, losses in theirs.items()}


def _held(own: list[float], theirs: list[float], nudged: list[list[float]], comm: MPI.Comm) -> Json:
    """Losses of the rank that differs most, and how far rounding brings them on any."""
    _, worst = comm.allreduce((furthest(own, theirs), comm.rank), MPI.MAX)
    made = comm.allreduce(max(furthest(each, theirs) for each in nudged), MPI.MAX)
    return {"custom": comm.bcast(own, worst), "vendor": comm.bcast(theirs, worst), "rounding": made}


def _layers(case: Case, graph: Graph, training: Training, batch: Batch, comm: MPI.Comm) -> Json:
    """The layer whose gradients differ most from the vendor's, and the one whose statistics do."""
    precision = case["PRECISION"]
    theirs = _Trial(_vendors(training), training).left(batch)
    own = _Trial(_copied(training), training).left(batch)
    nudged = [
        _Trial(_nudged(_vendors(training), precision, draw), training).left(batch) for draw in range(DRAWS_OF_LAYERS)
    ]
    gradients, statistics = (
        [
            _compared(name, vector, own[kind][name], [each[kind][name] for each in nudged], comm)
            for name, vector in left.items()
        ]
        for kind, left in enumerate(theirs)
    )
    return {
        "gradient": max(gradients, key=lambda layer: gradient_share(layer, precision)),
        "statistics": max(statistics, key=lambda layer: statistics_share(layer, pixels(case, graph, layer["where"]))),
    }


def _compared(name: str, theirs: Tensor, own: Tensor, nudged: list[Tensor], comm: MPI.Comm) -> Json:
    """By how much a layer is off, by how much rounding may bring it, and how large it is."""
    return {
        "where": name,
        "off": comm.allreduce(_norm(own.double() - theirs), MPI.MAX),
        "rounding": comm.allreduce(max(_norm(each.double() - theirs) for each in nudged), MPI.MAX),
        "size": comm.allreduce(_norm(theirs.double()), MPI.MAX),
    }


def _joined(parts: dict[str, list[Any]]) -> Left:
    """One vector of each layer that has any."""
    return {name: torch.cat([each.flatten() for each in tensors]) for name, tensors in parts.items() if tensors}


def _norm(vector: Tensor) -> float:
    return finite(float(vector.norm()))


def _moving(module: Layers) -> list[nn.Parameter]:
    """The parameters that steps change: not those of layers without any weights yet.

    Such are those of a detector that propose regions: by scores that are nearly alike, of which rounding would choose.
    """
    parts = (part for part in module.modules() if not isinstance(part, Layers))
    weighted = (part for part in parts if any(bool(each.any()) for each in part.parameters(recurse=False)))
    return [parameter for part in weighted for parameter in part.parameters(recurse=False)]


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
    return reductions.largest(comm, {name: min(each[name] for each in rounds) for name in trials})
