"""A tiny training on random images, assembled as in the benchmark, for tests of all code that trains."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import torch
from mpi4py import MPI

from hpcai.comm.grid import Group, split
from hpcai.comm.group_links import Path
from hpcai.comm.shutdown import Shutdown
from hpcai.data.bootstrap import sampler
from hpcai.data.image_dataset import ArraySplit
from hpcai.data.image_loader import Loader
from hpcai.data.order import Shard, ValidationShard
from hpcai.inputfile import Case
from hpcai.models.module import build
from hpcai.networks.graph import Graph, Layer
from hpcai.networks.layers import Add, BatchNorm, Conv, Dense, GlobalPool, Input, Relu, Softmax
from hpcai.train import precision as precisions
from hpcai.train.communication import Communication, communication_of
from hpcai.train.compiled_execution import build_execution
from hpcai.train.loop import Training
from hpcai.train.recipe import Recipe
from hpcai.train.replay import rounding_allowance
from hpcai.train.state import training_state
from hpcai.train.validation import Validation
from hpcai.update_rules.sgd import Sgd

CPU = torch.device("cpu")
SEED = 11
CLASSES = 5
SHAPE = (2, 6, 7)
GRAPH = Graph(
    (
        Layer("image", Input(SHAPE)),
        Layer("stem", Conv(4, (3, 3), (1, 1), (1, 1)), ("image",)),
        Layer("stem_norm", BatchNorm(), ("stem",)),
        Layer("stem_relu", Relu(), ("stem_norm",)),
        Layer("branch", Conv(4, (3, 3), (1, 1), (1, 1)), ("stem_relu",)),
        Layer("branch_norm", BatchNorm(), ("branch",)),
        Layer("sum", Add(), ("branch_norm", "stem_relu")),
        Layer("sum_relu", Relu(), ("sum",)),
        Layer("narrow", Conv(6, (3, 3), (2, 2), bias=True), ("sum_relu",)),
        Layer("pool", GlobalPool(), ("narrow",)),
        Layer("dense", Dense(CLASSES), ("pool",)),
        Layer("softmax", Softmax(), ("dense",)),
    )
)
RECIPE = Recipe(
    batch=8,
    degree=1,
    epochs=3,
    warmup_epochs=0.4,
    evaluate_every=2,
    learning_rate=3.0,
    schedule="cosine",
    scaling="linear",
    rule=Sgd(decay=0.01, momentum=0.9),
    smoothing=0.1,
)


def random_images(samples: int, seed: int) -> ArraySplit:
    """Random images whose brightness depends a little on the class."""
    random = np.random.default_rng(seed)
    classes = random.integers(0, CLASSES, samples)
    noise = random.integers(0, 150, (samples, *SHAPE))
    return ArraySplit((noise + 20 * classes[:, None, None, None]).astype(np.uint8), classes)


def alone() -> Group:
    """A group of this rank only. All have the same communicators, of which a process can make 2048; none is freed."""
    return replace(_alone(), resources={})


@cache
def _alone() -> Group:
    group = split(MPI.COMM_SELF, 1, 1, "row")
    assert group is not None
    return group


def unending() -> Shutdown:
    """A run that is never asked to end."""
    return Shutdown(MPI.COMM_SELF, 0.0)


def training(
    group: Group,
    samples: int = 20,
    validation: int = 23,
    sampling: str = "multinomial",
    graph: Graph = GRAPH,
    compile: str = "off",
    reduction: str = "flat",
    wire: str = "fp32",
    by: str = "",
    precision: str = "fp32",
    **changes: Any,
) -> Training:
    """The training of the group's model on `samples` images, by RECIPE with changes, also of its update rule."""
    of_rule = {name: changes.pop(name) for name in ("momentum", "decay") if name in changes}
    rule = replace(changes.pop("rule", RECIPE.rule), **of_rule)
    recipe = replace(RECIPE, degree=group.degree, rule=rule, **changes)
    member, halves = group.coordinates.group, (random_images(samples, 1), random_images(validation, 2))
    module = build(graph, SEED + member).to(memory_format=torch.channels_last)
    precisions.apply(precision, module, CPU)
    state = training_state(module, recipe, precision, CPU)
    draws = sampler(sampling, samples, SEED, member, group.groups)
    loaders = [loader(half, recipe.batch) for half in halves]
    validate = Validation(
        loaders[1], ValidationShard(validation, group.coordinates.member, group.degree, recipe.batch), CPU
    )
    shard = Shard(draws.size, group.coordinates.member, group.degree, recipe.batch)
    execution = build_execution(compile, module, group, CPU, communication(group, reduction, wire, by))
    known = rounding_allowance(precision, "vendor", compile == "torch")
    trained = Training(state, execution, recipe, draws, shard, loaders[0], validate, group, SEED, known)
    trained.checks.audited.entropy = SEED  # the same audited steps in every run of the tests
    return trained


def communication(group: Group, reduction: str = "flat", wire: str = "fp32", by: str = "") -> Communication:
    """The averaging of the group's gradients; `by` a backend other than the first that suits."""
    made = communication_of(Case(1, "ensemble", {"ALLREDUCE": reduction, "WIRE": wire}), group, CPU)
    if by and group.degree > 1:
        made.use(Path(reduction, by))  # type: ignore[arg-type]
    return made


def loader(pixels: ArraySplit, batch: int) -> Loader:
    """Images normalised with mean 1/2 and deviation 1/4 of the range."""
    return Loader(pixels, CPU, (0.5, 0.5), (0.25, 0.25), batch=batch)


def bits(value: Any) -> Any:
    """A snapshot with every tensor replaced by its bytes, without what differs between runs: seconds, loading."""
    if isinstance(value, torch.Tensor):
        return str(value.dtype), tuple(value.shape), value.contiguous().view(-1).view(torch.uint8).numpy().tobytes()
    if isinstance(value, dict):
        return {key: bits(item) for key, item in value.items() if not str(key).endswith(("seconds", "loading"))}
    return [bits(item) for item in value] if isinstance(value, list) else value


class Numbered:
    """Images that contain only their number and the half they belong to; records which ones were read."""

    def __init__(self, half: int, classes: np.ndarray) -> None:
        self.half, self.classes = half, classes
        self.read: list[int] = []

    def __len__(self) -> int:
        return len(self.classes)

    def images(self, indices: np.ndarray) -> np.ndarray:
        self.read += indices.tolist()
        pixels = np.stack([indices % 256, indices // 256, np.full(len(indices), self.half)], 1)
        return pixels.astype(np.uint8).reshape(-1, 1, 1, 3)

    def labels(self, indices: np.ndarray) -> np.ndarray:
        return self.classes[indices]

    def loader(self, batch: int) -> Loader:
        """The images with their pixels unchanged."""
        return Loader(self, CPU, (0.0,), (1 / 255,), batch=batch)


class Table(torch.nn.Module):
    """A model with a stored answer to each numbered image; it answers only in evaluation mode."""

    def __init__(self, *halves: np.ndarray) -> None:
        super().__init__()
        self.halves = [torch.from_numpy(logits) for logits in halves]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert not self.training and torch.is_inference_mode_enabled()
        low, high, half = x[:, 0, 0].round().long().T
        assert len(set(half.tolist())) == 1
        return self.halves[int(half[0])][low + 256 * high]


def repeating(loader: Loader) -> Any:
    """The loader with a fault: it delivers its first batch a second time, in place of the second."""

    def faulty(batches: Iterable[np.ndarray]) -> Iterator[Any]:
        first, _, *others = loader(batches)
        yield from (first, first, *others)

    return faulty
