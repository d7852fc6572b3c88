"""Loads libraries and compiles kernels before memory is measured, by running a tiny training and tiny products."""

from collections.abc import Sequence
from functools import partial
from importlib import import_module

import numpy as np
import torch

from hpcai import networks
from hpcai.clock import now
from hpcai.data.dataset_paths import crops
from hpcai.data.image_dataset import ArraySplit
from hpcai.data.image_loader import Loader
from hpcai.data.source import source_of
from hpcai.formulas.precision import PRECISIONS
from hpcai.inputfile import Case
from hpcai.kernels import conv2d
from hpcai.kernels.arithmetic import INT8
from hpcai.kernels.check import check_layer
from hpcai.kernels.cycles.numba_cpu import ITERATIONS, burst
from hpcai.kernels.providers import VENDOR
from hpcai.kernels.spec import DIRECTIONS
from hpcai.machine import memory
from hpcai.models.module import build
from hpcai.preflight.preconditions import Piece, preconditions
from hpcai.train.optimisers import build_optimiser
from hpcai.train.profiler import by_class, profiler
from hpcai.train.providers import use_custom
from hpcai.train.recipe import Recipe
from hpcai.train.state import TrainingState
from hpcai.train.step_elements import StepElements
from hpcai.workloads.registry import workload

SIDE, SAMPLES = 8, 4
CHANNELS = ((1, 1), (40, 1), (64, 64))  # few, many, whole cache lines: other machine code is at work for each
LAYERS = tuple(conv2d.Shape(1, inputs, SIDE, SIDE, outputs, (3, 3)) for inputs, outputs in CHANNELS)


def load(cases: Sequence[Case], device: torch.device, compiled: bool = True, node: tuple[int, int] = (0, 1)) -> int:
    """Bytes of this process with all libraries loaded: the baseline of its memory.

    One step of a tiny network on tiny images, through the parts that every training uses; what each workload needs
    besides; tiny products by custom kernels, unless a plan need not wait until they are `compiled`. node: rank in the
    node and its ranks, which divide the compiling.
    """
    memory.retain_freed_memory()
    trained = [case for case in cases if case.trains]
    for (_, spec), case in {(case.workload, case.dataset): case for case in trained}.items():
        source_of(case).load(spec)
    if any(case.split.stages > 1 for case in trained):
        import_module("torch._dynamo")  # for backward passes of stages, which are given gradients
    if trained:
        _train(trained[0], device)
        check_layer(LAYERS[0], str(device), 1)
    memory.resume_collection()  # before compilation, which leaves hundreds of MiB of garbage
    for piece in _ordered(_pieces(cases, device, compiled), *node):
        piece()
    memory.release_unused()
    memory.resume_collection()
    return memory.resident()


def _ordered(pieces: list[Piece], rank: int, ranks: int) -> list[Piece]:
    """All pieces, in another order on each rank of a node: what one compiles the others find on disk.

    Two ranks begin at the same place, one of them backwards, until they meet.
    """
    first = len(pieces) * (rank - rank % 2) // ranks
    ordered = pieces[first:] + pieces[:first]
    return ordered[::-1] if rank % 2 else ordered


def _pieces(cases: Sequence[Case], device: torch.device, compiled: bool) -> list[Piece]:
    """Tiny work by whatever has to be loaded or compiled, but for what every training uses."""
    trained = [case for case in cases if case.trains]
    found: list[Piece] = []
    if device.type == "cpu" and trained:
        found += [partial(burst, now, ITERATIONS), partial(_normalise, any(crops(case.dataset) for case in trained))]
    if compiled and any(map(_is_int8, trained)):
        found.append(partial(check_layer, LAYERS[1], str(device), 1, arithmetic=INT8))
    for section in dict.fromkeys(case.workload for case in cases):
        custom = any(case.workload == section and case.kernels != VENDOR for case in cases if case.trains)
        found += preconditions(section).pieces(device, compiled, custom)
    return found


def custom_convolutions(device: torch.device) -> list[Piece]:
    """What training a network of convolutions by custom kernels compiles on CPUs; GPUs compile each shape by itself."""
    if device.type != "cpu":
        return []
    layers = [partial(_check_custom, shape, way, device) for shape in LAYERS for way in DIRECTIONS]
    return [*layers, partial(run_pass, "resnet8", (SIDE, SIDE), device, custom=True)]


def run_pass(network: str, size: tuple[int, int], device: torch.device, custom: bool) -> None:
    """Run a forward and a backward pass of a network on zeros."""
    module = build(networks.build(network, size, 1, 2), 0)
    module = module.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    if custom:
        use_custom(module)
    module(torch.zeros(SAMPLES, 1, *size, device=device)).sum().backward()


def _check_custom(shape: conv2d.Shape, direction: str, device: torch.device) -> None:
    check_layer(shape, str(device), 1, (direction,), custom=(direction,))


def compiles(cases: Sequence[Case], device: torch.device) -> bool:
    """Whether `load` has to compile custom kernels, which takes a minute or two; processes may differ."""
    if device.type != "cpu":
        return False
    from hpcai.kernels.cpu.compiled import kept

    return not all(kept(kernel) for case in cases for kernel in _needed(case))


def _needed(case: Case) -> list[str]:
    """The kernels of a case that take long to compile, by their folders."""
    of = workload(case.workload)
    needed = [*of.compiles]
    if case.trains and case.kernels != VENDOR:
        needed += of.compiles_if_custom
    if _is_int8(case):
        needed.append(conv2d.SPEC.name)
    return needed


def refused_folders() -> list[str]:
    """Folders of machine code that are not used, each with the reason; processes may differ."""
    from hpcai.kernels import code_cache
    from hpcai.kernels.cpu.compiled import kept

    kept(conv2d.SPEC.name)
    return [f"{path} {why}" for path, why in code_cache.refused.items()]


def _is_int8(case: Case) -> bool:
    """Whether a case trains by products of bytes, which are always by custom kernels."""
    return case.settings.get("PRECISION") in [row.name for row in PRECISIONS.values() if row.quantised]


def _normalise(cropped: bool) -> None:
    """Normalise images in both memory orders, each compiled separately: cropped images are channels-last."""
    from hpcai.kernels.normalise.numba_cpu import normalise

    images, factors = np.zeros((1, 3, SIDE, SIDE), np.uint8), np.ones(3, np.float32)
    normalise(images, factors, factors)
    if cropped:
        from hpcai.kernels.crop.numba_cpu import crop

        last = np.zeros((1, SIDE, SIDE, 3), np.uint8)
        crop(last, np.array([[0, 0, SIDE, SIDE, 0]], np.int32), last.copy())
        normalise(last.transpose(0, 3, 1, 2), factors, factors)


def _train(case: Case, device: torch.device) -> None:
    import h5py  # noqa: F401

    graph = networks.build("resnet8", (SIDE, SIDE), 1, 2)
    module = build(graph, 0).to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    recipe = Recipe.of(case.settings)
    optimiser = build_optimiser(recipe.rule, module, recipe.peak_rate)
    elements = StepElements(TrainingState(module, optimiser, device), recipe.rule, 1)
    images = ArraySplit(np.zeros((SAMPLES, 1, SIDE, SIDE), np.uint8), np.zeros(SAMPLES, np.int64))
    loader = Loader(images, device, (0.5,), (0.5,), batch=SAMPLES)
    with profiler(device) as recorded:
        for x, y, _ in loader([np.arange(SAMPLES)]):
            torch.nn.functional.cross_entropy(module(x), y).backward()
            optimiser.step()
            elements.begin()
            elements.note()
    by_class(recorded.key_averages(), device)
