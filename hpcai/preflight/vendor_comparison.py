"""Vendor comparison: losses, layers and seconds of the first training steps, by custom kernels and by the vendor's.

Both start from the same weights, on the same samples; they differ by rounding alone, and steps amplify the difference.
The amplification is measured by further trainings by vendor kernels with weights altered at random by the larger of the
element-wise check's tolerance, 8 sqrt(N) u, and half a unit in the last place of the products' type.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, cast

import torch
from mpi4py import MPI
from torch import Tensor, nn

from hpcai import clock
from hpcai.comm import communicators
from hpcai.formulas.precision import PRECISIONS
from hpcai.inputfile import Case
from hpcai.kernels.providers import VENDOR
from hpcai.kernels.spec import fp32_tolerance
from hpcai.machine import memory
from hpcai.models.module import Layers
from hpcai.networks.graph import Graph
from hpcai.preflight.layer_vectors import Vectors, layer_vectors
from hpcai.record.preflight import COMPARED_STEPS, ComparedLayer, ComparedLosses, EvaluatedLoss, VendorComparison
from hpcai.results.vendor_comparison import finite, gradient_share, largest_difference, pixels, statistics_share
from hpcai.train.loop import Training
from hpcai.train.objective import Classification
from hpcai.train.providers import use_vendor

Batch = tuple[Tensor, Tensor]

Compared = TypeVar("Compared", bound=ComparedLosses)
RATE = 0.1  # share of the recipe's peak rate: large enough to change the weights, too small to diverge
SAMPLES = 8  # samples of a batch, at most, in these steps
DRAWS = 7  # altered trainings for a loss, which is one number; for a layer's many numbers
DRAWS_OF_LAYERS = 2
ROUNDS, SECONDS = 5, 4.0  # timing rounds, at most, after one that does not count


@dataclass(frozen=True)
class _Trial:
    """A network by the kernels of one provider, trained from its present weights, without gradient averaging."""

    module: Layers
    training: Training

    def step(self, batch: Batch) -> Tensor:
        """Loss of a batch; leaves its gradients in the parameters."""
        self.module.zero_grad(set_to_none=True)
        return self.training.execution.alone(self.module, self.training.objective, *batch, 0)

    def losses(self, batch: Batch) -> list[float]:
        """Losses of COMPARED_STEPS steps of plain gradient descent."""
        found, moving = [], _compared_parameters(self.module)
        for _ in range(COMPARED_STEPS):
            found.append(finite(float(self.step(batch))))
            with torch.no_grad():
                for parameter in moving:
                    assert parameter.grad is not None, "every parameter takes part in every call"
                    parameter.sub_(parameter.grad, alpha=RATE * self.training.recipe.peak_rate)
        return found

    def evaluated(self, batch: Batch) -> list[float]:
        """The loss in evaluation mode, with the statistics left by the steps."""
        execution, objective = self.training.execution, self.training.objective
        with torch.inference_mode():
            loss = execution.alone(self.module.eval(), objective, *batch, 0, backward=False)
        self.module.train()
        return [finite(float(loss))]

    def all_losses(self, batch: Batch) -> dict[str, list[float]]:
        """All compared losses, by field of VendorComparison; evaluation losses of classifiers only."""
        losses = {"losses": self.losses(batch)}
        classifies = isinstance(self.training.objective, Classification)
        return losses | ({"evaluated": self.evaluated(batch)} if classifies else {})

    def layer_vectors(self, batch: Batch) -> tuple[Vectors, Vectors]:
        """Gradients and statistics of each layer after a pass."""
        self.step(batch)
        return layer_vectors(self.module)

    def seconds(self, batch: Batch, device: torch.device) -> float:
        """Seconds of one forward and backward pass."""
        clock.synchronise(device)
        begin = clock.now()
        self.step(batch)
        clock.synchronise(device)
        return clock.now() - begin


def compare_with_vendor(
    case: Case,
    graph: Graph,
    assemble: Callable[[], Training],
    comm: MPI.Comm,
    device: torch.device,
    phases: clock.Phases,
) -> VendorComparison | None:
    """The vendor comparison, timed as a phase; None where vendor kernels train. Collective over `comm`.

    `assemble` builds a new training of the graph's network.
    """
    if case.kernels == VENDOR:
        return None
    with phases.measure("vendor_comparison"):
        found = _comparison(case, graph, assemble(), comm, device)
    memory.release_unused()
    return found


def _comparison(case: Case, graph: Graph, training: Training, comm: MPI.Comm, device: torch.device) -> VendorComparison:
    """Losses of the rank that differs most, the worst layers, and seconds of a pass of the slowest rank.

    The training is left as it was.
    """
    ((x, y, _),) = training.loader([training.sampler.draw(training.shard.step_positions(0))])
    losses, evaluated = _losses(training, (x[:SAMPLES], y[:SAMPLES]), case.precision, comm)
    gradient, statistics = _layers(case, graph, training, (x, y), comm)
    custom_seconds, vendor_seconds = _pass_seconds(training, (x, y), comm, device)
    return VendorComparison(
        losses=losses,
        gradient=gradient,
        statistics=statistics,
        custom_seconds=custom_seconds,
        vendor_seconds=vendor_seconds,
        evaluated=evaluated,
    )


def _losses(
    training: Training, batch: Batch, precision: str, comm: MPI.Comm
) -> tuple[ComparedLosses, EvaluatedLoss | None]:
    vendor = _Trial(_by_vendor(training), training).all_losses(batch)
    custom = _Trial(_copied(training), training).all_losses(batch)
    altered = [each.all_losses(batch) for each in _altered_trials(training, precision, DRAWS)]
    compared = {
        name: partial(_compared_losses, custom[name], losses, [each[name] for each in altered], comm)
        for name, losses in vendor.items()
    }
    steps = compared["losses"](ComparedLosses)
    return steps, compared["evaluated"](EvaluatedLoss) if "evaluated" in compared else None


def _compared_losses(
    custom: list[float], vendor: list[float], altered: list[list[float]], comm: MPI.Comm, kind: type[Compared]
) -> Compared:
    """Losses of the rank that differs most, and the largest change by rounding on any rank."""
    _, worst = comm.allreduce((largest_difference(custom, vendor), comm.rank), MPI.MAX)
    rounding = comm.allreduce(max(largest_difference(each, vendor) for each in altered), MPI.MAX)
    return kind(custom=tuple(comm.bcast(custom, worst)), vendor=tuple(comm.bcast(vendor, worst)), rounding=rounding)


def _altered_trials(training: Training, precision: str, draws: int) -> Iterator[_Trial]:
    """The vendor's training with weights altered by one rounding, `draws` times."""
    return (_Trial(_altered(_by_vendor(training), precision, draw), training) for draw in range(draws))


def _layers(
    case: Case, graph: Graph, training: Training, batch: Batch, comm: MPI.Comm
) -> tuple[ComparedLayer, ComparedLayer | None]:
    """The layer whose gradients deviate most from the vendor's, and the layer whose statistics do, if any has some."""
    alike = communicators.split(comm, training.group.place.stage, comm.rank)  # with the same layers
    vendor = _Trial(_by_vendor(training), training).layer_vectors(batch)
    custom = _Trial(_copied(training), training).layer_vectors(batch)
    altered = [each.layer_vectors(batch) for each in _altered_trials(training, case.precision, DRAWS_OF_LAYERS)]
    gradients, statistics = (
        [
            _compared_layer(name, vector, custom[kind][name], [each[kind][name] for each in altered], alike)
            for name, vector in layer_vectors.items()
        ]
        for kind, layer_vectors in enumerate(vendor)
    )
    alike.Free()
    return (
        _worst(gradients, lambda layer: gradient_share(layer, case.precision), comm),
        _worst(statistics, lambda layer: statistics_share(layer, pixels(case, graph, layer.where)), comm),
    )


def _worst(layers: list[ComparedLayer], share: Callable[[ComparedLayer], float], comm: MPI.Comm) -> Any:
    """The worst layer of all stages; a stage may have none. None without any."""
    own = max(layers, key=share, default=None)
    _, rank = comm.allreduce((share(own) if own else -1.0, comm.rank), MPI.MAX)
    return comm.bcast(own, rank)


def _compared_layer(name: str, vendor: Tensor, custom: Tensor, altered: list[Tensor], comm: MPI.Comm) -> ComparedLayer:
    return ComparedLayer(
        where=name,
        deviation=comm.allreduce(_norm(custom.double() - vendor), MPI.MAX),
        rounding=comm.allreduce(max(_norm(each.double() - vendor) for each in altered), MPI.MAX),
        norm=comm.allreduce(_norm(vendor.double()), MPI.MAX),
    )


def _norm(vector: Tensor) -> float:
    return finite(float(vector.norm()))


def _compared_parameters(module: Layers) -> list[nn.Parameter]:
    """The parameters that steps change: not those of layers whose weights are all zero.

    A detector's proposal layers start at zero: their scores are nearly equal, so rounding would decide between regions.
    """
    parts = (part for part in module.modules() if not isinstance(part, Layers))
    weighted = (part for part in parts if any(bool(each.any()) for each in part.parameters(recurse=False)))
    return [parameter for part in weighted for parameter in part.parameters(recurse=False)]


def _copied(training: Training) -> Layers:
    return cast(Layers, deepcopy(training.state.module).train())


def _by_vendor(training: Training) -> Layers:
    use_vendor(module := _copied(training))
    return module


def _altered(module: Layers, precision: str, draw: int) -> Layers:
    """Change every weight up or down by a random draw that is the same everywhere."""
    generator = torch.Generator().manual_seed(draw)
    arithmetic = PRECISIONS[precision].arithmetic
    with torch.no_grad():
        for weight in (parameter for parameter in module.parameters() if parameter.ndim > 1):
            change = max(fp32_tolerance(weight[0].numel()), 2.0**-arithmetic.significand)
            signs = torch.randint(0, 2, weight.shape, generator=generator).to(weight.device, torch.float32) * 2 - 1
            weight.copy_(weight.float() * (1 + change * signs))
    return module


def _pass_seconds(training: Training, batch: Batch, comm: MPI.Comm, device: torch.device) -> tuple[float, float]:
    """Seconds of a pass over a full batch by custom and by vendor kernels, alternating; the fastest of each."""
    trials = [_Trial(module, training) for module in (_copied(training), _by_vendor(training))]
    whole = comm.allreduce(sum(trial.seconds(batch, device) for trial in trials), MPI.MAX)
    count = min(max(int(SECONDS / whole), 1), ROUNDS)
    rounds = [[trial.seconds(batch, device) for trial in trials] for _ in range(count)]
    custom, vendor = (comm.allreduce(min(seconds), MPI.MAX) for seconds in zip(*rounds, strict=True))
    return custom, vendor
