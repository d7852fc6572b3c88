"""Loads libraries and compiles kernels before memory is measured, by running a tiny training and tiny products."""

from collections.abc import Sequence
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
from hpcai.machine import memory
from hpcai.models.module import build
from hpcai.preflight.preconditions import preconditions
from hpcai.train.optimisers import build_optimiser
from hpcai.train.profiler import by_class, profiler
from hpcai.train.recipe import Recipe
from hpcai.train.state import TrainingState
from hpcai.train.step_elements import StepElements
from hpcai.workloads.registry import workload

SIDE, SAMPLES = 8, 4
MANY = 40  # channels: with few of them other machine code is at work


def load(cases: Sequence[Case], device: torch.device, compiled: bool = True) -> int:
    """Bytes of this process with all libraries loaded: the baseline of its memory.

    One step of a tiny network on tiny images, through the parts that every training uses; what each workload needs
    besides; tiny products by custom kernels, unless a plan need not wait until they are `compiled`.
    """
    memory.retain_freed_memory()
    trained = [case for case in cases if case.trains]
    for (_, spec), case in {(case.workload, case.dataset): case for case in trained}.items():
        source_of(case).load(spec)
    if device.type == "cpu" and trained:
        burst(now, ITERATIONS)
        _normalise(any(crops(case.dataset) for case in trained))
    if any(case.split.stages > 1 for case in trained):
        import_module("torch._dynamo")  # for backward passes of stages, which are given gradients
    if trained:
        _train(trained[0], device)
        check_layer(conv2d.Shape(1, 1, SIDE, SIDE, 1, (3, 3)), str(device), 1)
    memory.resume_collection()  # before compilation, which leaves hundreds of MiB of garbage
    if compiled and any(map(_is_int8, trained)):
        check_layer(conv2d.Shape(1, MANY, SIDE, SIDE, 1, (3, 3)), str(device), 1, arithmetic=INT8)
    for section in dict.fromkeys(case.workload for case in cases):
        custom = any(case.workload == section and case.kernels != VENDOR for case in cases if case.trains)
        preconditions(section).load(device, compiled, custom)
    memory.release_unused()
    memory.resume_collection()
    return memory.resident()


def compiles(cases: Sequence[Case], device: torch.device) -> bool:
    """Whether `load` has to compile custom kernels, which takes a minute or two; processes may differ."""
    if device.type != "cpu":
        return False
    from hpcai.kernels.cpu.compiled import kept

    kernels = {kernel for case in cases for kernel in workload(case.workload).compiles}
    kernels |= {conv2d.SPEC.name for case in cases if case.trains}
    return not all(map(kept, kernels))


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
