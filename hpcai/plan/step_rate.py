"""Time estimate of a test from short steps of its network measured on this machine."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np
import torch

from hpcai import clock, estimate
from hpcai.data.dataset_paths import GENERATED
from hpcai.data.image_dataset import Dataset
from hpcai.data.order import Shard
from hpcai.data.text.text_dataset import Text
from hpcai.data.weather.weather_dataset import Weather
from hpcai.estimate import Rates
from hpcai.inputfile import Case
from hpcai.inputfile.split import Cut
from hpcai.models.build import build, detects, looks_up
from hpcai.networks.graph import Graph
from hpcai.opcount import count
from hpcai.preflight.layer_products import check, checked_operations, products_of_parts
from hpcai.train.objective import Classification
from hpcai.train.optimisers import build_optimiser
from hpcai.train.precision import apply
from hpcai.update_rules import rule_of
from hpcai.update_rules.rule import UpdateRule

PROBED_OPERATIONS = 60 * 10**9  # operations of a measured step, at most, unless two images have more
MADE = 2  # frames
PROBES = 3  # timed steps, after one that is not
RATE = 0.001  # learning rate of the timed steps
LONG = 2.0  # seconds of a step that hide one-time costs


def seconds(
    case: Case, dataset: Dataset | Weather | Text, graph: Graph, shard: Shard, device: torch.device, crowd: float
) -> dict[str, float]:
    """Seconds of a case by phase, from short steps of its network here; `crowd` ranks share a processor."""
    per_image = count(graph, "model").total
    batch = min(case.batch, max(2, PROBED_OPERATIONS // per_image))  # within the planned memory
    of_network = probe(graph, batch, rule_of(case.settings), case.precision, device)
    making = _generation_seconds(case, dataset)
    rates = replace(
        of_network,
        training=of_network.training + making,
        validation=of_network.validation + making,
        once=clock.since_process_start() if case.index == 1 else 0.0,
        residuals=_residual_seconds(graph, case.cut, device) / (case.groups * case.degree),
    )
    found = estimate.seconds(rates, case.settings, shard.steps, len(dataset.train), len(dataset.validation))
    return {phase: taken * crowd for phase, taken in found.items()}


def _generation_seconds(case: Case, dataset: Dataset | Weather | Text) -> float:
    """Seconds to generate a frame of generated weather; 0 for other data."""
    if not isinstance(dataset, Weather) or case.dataset != GENERATED:
        return 0.0
    frames = np.arange(MADE)
    return _fastest(lambda: dataset.train.frames(frames), torch.device("cpu")) / MADE


@lru_cache
def probe(graph: Graph, batch: int, rule: UpdateRule, precision: str, device: torch.device) -> Rates:
    """Measured seconds of a sample in a training step and in a validation of this network."""
    module = build(graph, 0).to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    apply(precision, module, device)
    optimiser = build_optimiser(rule, module, RATE)
    size = (batch, *graph.shapes[graph.layers[0].name])
    x = torch.zeros(size, device=device) if looks_up(graph) else torch.randn(size, device=device)
    x = x.to(memory_format=torch.channels_last)
    y = torch.zeros(batch, *graph.shapes[graph.layers[-1].name][:-1], dtype=torch.int64, device=device)
    nothing = torch.full((batch, 1, 5), -1.0, device=device)  # boxes to detect

    def backward() -> None:
        loss = module(x, nothing).sum() if detects(graph) else Classification(0.0)(module, x, y, 0)
        loss.backward()

    def update() -> None:
        optimiser.step()
        optimiser.zero_grad(set_to_none=False)

    def evaluate() -> None:
        with torch.inference_mode():
            module(x)

    training, updating = _fastest(backward, device), _fastest(update, device)
    module.eval()
    return Rates(training=training / batch, validation=_fastest(evaluate, device) / batch, update=updating)


@lru_cache
def _residual_seconds(graph: Graph, cut: Cut, device: torch.device) -> float:
    """Seconds of the residual checks on one rank, from those of a layer of middle size."""
    shapes = sorted(products_of_parts(graph, cut), key=checked_operations)
    middling = shapes[len(shapes) // 2]
    begin = clock.now()
    check(middling, device, 1)
    rate = (clock.now() - begin) / checked_operations(middling)
    return rate * sum(map(checked_operations, shapes))


def _fastest(work: Callable[[], object], device: torch.device) -> float:
    """Seconds of the fastest of a few calls, after a discarded one unless that is long."""
    times: list[float] = []
    while len(times) < 1 + PROBES and max(times, default=0.0) < LONG:
        clock.synchronise(device)
        begin = clock.now()
        work()
        clock.synchronise(device)
        times.append(clock.now() - begin)
    return min(times[1:] or times)
