"""Loads what torch and this program load only when it is first used, so that it is there before memory is measured."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch

from hpcai import networks
from hpcai.data import catalog, dataset_paths
from hpcai.data.image_dataset import ArraySplit
from hpcai.data.image_loader import Loader
from hpcai.formulas.precision import PRECISIONS
from hpcai.inputfile import Case
from hpcai.kernels import conv2d, copy, fma_peak, gemm, triad
from hpcai.kernels.check import check_layer
from hpcai.kernels.providers import CUSTOM, Unavailable, backend
from hpcai.kernels.spec import DIRECTIONS, DTYPES, INPUT_GRADIENT, INT8, S, Spec, T
from hpcai.kernels.verify import drawn
from hpcai.machine import memory
from hpcai.models.build import build as built
from hpcai.models.detection import regions
from hpcai.models.module import build
from hpcai.opcount.ceilings import COPY, FMA_PEAK, Ceiling, ceilings
from hpcai.train.optimisers import build_optimiser
from hpcai.train.profiler import by_class, profiler
from hpcai.train.recipe import Recipe

SIDE, SAMPLES = 8, 4
COMPILED = ("kernels", "weather")  # what our own kernels run in
MANY = 40  # channels: with few of them other machine code is at work


def load(cases: Sequence[Case], device: torch.device, compiled: bool = True) -> int:
    """Bytes of this process once all libraries are at work: the baseline of its memory.

    One step of a tiny network on tiny pictures, through the parts that every training uses; tiny products by our own
    kernels, unless a plan need not wait until they are `compiled`.
    """
    memory.keep_freed()
    trained = [case for case in cases if case.trains]
    for case in {case["DATASET"]: case for case in trained if case.workload != "weather"}.values():
        if case["DATASET"] == dataset_paths.GENERATED:
            made = catalog.open_dataset(dataset_paths.GENERATED, 2, classes=2, resolution=SIDE).train
            made.images(np.arange(1)), made.labels(np.arange(1))
    if device.type == "cpu" and trained:
        _normalise(any(case["DATASET"].startswith("imagenet:") for case in trained))
    if trained:
        _train(trained[0], device)
        check_layer(conv2d.Shape(1, 1, SIDE, SIDE, 1, (3, 3)), str(device), 1)
    memory.keep_loaded()  # before anything is compiled, which leaves hundreds of MiB to collect
    if compiled and any(map(_of_bytes, trained)):
        check_layer(conv2d.Shape(1, MANY, SIDE, SIDE, 1, (3, 3)), str(device), 1, arithmetic=INT8)
    if any(case.workload == "nas" for case in cases):
        _search()
    if any(case.workload == "weather" for case in cases):
        _detect(device)
    if compiled and any(case.workload == "kernels" for case in cases):
        _kernels(device)
    memory.give_back()
    memory.keep_loaded()
    return memory.resident()


def compiles(cases: Sequence[Case], device: torch.device) -> bool:
    """Whether `load` has to compile our kernels, which takes a minute or two; processes may find different things."""
    if device.type != "cpu" or not any(case.workload in COMPILED or _of_bytes(case) for case in cases):
        return False
    from hpcai.kernels.cpu.compiled import kept

    return not kept()


def _of_bytes(case: Case) -> bool:
    """Whether a case trains by products of bytes, which are always ours."""
    return case.settings.get("PRECISION") in [row.name for row in PRECISIONS.values() if row.quantised]


def _detect(device: torch.device) -> None:
    """A step and a judgement of a tiny detector on generated fields; only detectors wait for their kernels."""
    if regions.refusal(device):  # which is told where cases are checked
        return
    from hpcai.data.weather.generated import LEAST
    from hpcai.data.weather.weather_loader import Loader as Fields
    from hpcai.detections.detection_tables import used
    from hpcai.detections.weighted_box_fusion import fused

    data = catalog.open_weather(dataset_paths.GENERATED, 2, classes=2, resolution=LEAST)
    graph = networks.build("fasterrcnn8", data.shape[1:], data.shape[0], 2)
    module = built(graph, 0).to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    ((x, y, _),) = Fields(data, data.train, device, batch=2)([np.arange(2)])
    module(x, y).sum().backward()
    with torch.inference_mode():
        rows = used(module.eval()(x).cpu().numpy())
    fused([rows[0], rows[0]])


def _search() -> None:
    """What tells networks apart, whose loops are compiled; only searches wait for the compiler to be loaded."""
    from hpcai.search.edit_distance import distances, features, packed

    known = features(networks.build("resnet8", (SIDE, SIDE), 1, 2))
    distances(known, packed([known]))


def _kernels(device: torch.device) -> None:
    """Our own kernels, in all types and directions that are measured."""
    matrices = gemm.Shape(SIDE, SIDE, SIDE)
    layers = [conv2d.Shape(1, channels, SIDE, SIDE, 1, (3, 3)) for channels in (1, MANY)]
    with suppress(Unavailable):
        for dtype in (name for name, kinds in DTYPES.items() if not kinds.on_gpus):
            _product(gemm.SPEC, matrices, INPUT_GRADIENT, dtype, device)
        for direction in DIRECTIONS:
            _product(gemm.SPEC, matrices, direction, "fp32", device)
            for layer in layers:
                _product(conv2d.SPEC, layer, direction, "fp32", device)
    for ceiling in ceilings(device.type == "cuda"):
        with suppress(Unavailable):  # of one type: others may have instructions
            _ceiling(ceiling, device)


def _ceiling(ceiling: Ceiling, device: torch.device) -> None:
    vectors = triad.Vectors(np.ones(SIDE), np.ones(SIDE))
    if ceiling.kernel == FMA_PEAK:
        provider = fma_peak.peak_provider(device.type)
        shape, data = provider.shape(ceiling.dtype, 1, str(device), torch.get_num_threads()), ceiling.dtype
        _call(fma_peak.SPEC, shape, "", data, device)
    elif ceiling.kernel == COPY:
        _call(copy.SPEC, copy.Shape(SIDE), "", vectors.b, device)
    else:
        _call(triad.SPEC, triad.Shape(SIDE), "", vectors, device)


def _product(kernel: Spec[S], shape: S, direction: str, dtype: str, device: torch.device) -> None:
    _call(kernel, shape, direction, drawn(shape, dtype, 1), device)


def _call(kernel: Spec[T], shape: T, direction: str, data: Any, device: torch.device) -> None:
    ways = backend(kernel, CUSTOM, device.type).prepare(shape, direction, data, str(device), torch.get_num_threads())
    for way in ways:
        way.call()


def _normalise(cropped: bool) -> None:
    """Pictures by the order of their bytes, each compiled by itself: cropped ones have the channels last."""
    from hpcai.kernels.normalise.numba_cpu import normalise

    pictures, factors = np.zeros((1, 3, SIDE, SIDE), np.uint8), np.ones(3, np.float32)
    normalise(pictures, factors, factors)
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
    pictures = ArraySplit(np.zeros((SAMPLES, 1, SIDE, SIDE), np.uint8), np.zeros(SAMPLES, np.int64))
    loader = Loader(pictures, device, (0.5,), (0.5,), batch=SAMPLES)
    with profiler(device) as recorded:
        for x, y, _ in loader([np.arange(SAMPLES)]):
            torch.nn.functional.cross_entropy(module(x), y).backward()
            optimiser.step()
    by_class(recorded.key_averages(), device)
