"""The triad and the copy of a GPU without one: run on the host, at every length; compiled for all architectures."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cuda_on_host import SCHEDULES, planted, run
from cuda_sources import ARCHITECTURES, device_target, faults
from sampled_parameters import one_in

from hpcai.kernels import copy, triad, verify
from hpcai.kernels.arrays import aligned, poisoned
from hpcai.kernels.copy import cupy_gpu as copy_gpu
from hpcai.kernels.copy import vendor
from hpcai.kernels.cuda import elementwise as stream
from hpcai.kernels.cuda.compiler import compiled
from hpcai.kernels.cuda.launch import Launch
from hpcai.kernels.providers import Prepared
from hpcai.kernels.triad import cupy_gpu as triad_gpu

KERNELS = ("triad", "copy")
NAMES = {"float32": "fp32", "float64": "fp64"}
LENGTHS = (0, 1, 2, 3, 511, 4095, 4096, 4097, 20_011)


def made(kernel: str, kind: str, length: int) -> tuple[Launch, Any, Any]:
    """A launch on two multiprocessors, its input, and its output, filled with one number and one element longer."""
    generator = np.random.default_rng(length)
    b, c = (aligned(generator.standard_normal(length).astype(kind)) for _ in range(2))
    a = poisoned((length + 1,), kind)
    addresses = [vector.ctypes.data for vector in (a, b, c)]
    if kernel == "copy":
        return copy_gpu.launch(*addresses[:2], kind, length, 2), b, a
    return triad_gpu.launch(*addresses, kind, length, 2), triad.Vectors(b, c), a


def residual(kernel: str, kind: str, data: Any, a: Any) -> float:
    """Of all but the last number, which has to keep its value."""
    module = {"triad": triad, "copy": copy}[kernel]
    found = Prepared(lambda: None, lambda: a[:-1], lambda: None)
    return verify.residual(module.SPEC, module.Shape(len(a) - 1), "ceiling", NAMES[kind], data, found)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_exactly_the_required_numbers_are_written(kernel: str, kind: str, schedule: str) -> None:
    for length in LENGTHS:
        launch, data, a = made(kernel, kind, length)
        run(launch, schedule)
        assert np.isnan(a[-1]) and (not length or residual(kernel, kind, data, a) < 0.5), length


NUMBERS = "; ++i) {\n                Element"
FAULTS = [
    ("what is less than a piece", "last < length", "last + 1 < length"),
    ("a chunk", "chunk < chunks", "chunk + 1 < chunks"),
    ("a piece", "piece < pieces", "piece + 1 < pieces"),
    ("a number of a piece", f"i < COUNT{NUMBERS}", f"i < COUNT - 1{NUMBERS}"),
    ("another piece", "from[operand]) + first", "from[operand]) + first + piece % 2"),
    ("the other operand", "given[piece][operand].values", "given[piece][0].values"),
]


@pytest.mark.parametrize(("what", "right", "wrong"), one_in(3, FAULTS))
def test_a_fault_is_detected(what: str, right: str, wrong: str, tmp_path: Path) -> None:
    launch, data, a = made("triad", "float64", 20_011)
    run(launch, SCHEDULES[0], planted(launch.program, tmp_path, right, wrong))
    assert not residual("triad", "float64", data, a) < 1, what


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_no_kernel_spills_registers(kernel: str, architecture: str) -> None:
    target = device_target(architecture)
    for program in stream.programs(kernel, target):
        made = compiled(program, target)
        assert not faults(made) and all(usage.stack == 0 for usage in made.usage.values()), f"{program}"


def test_enough_elements_fill_a_gpu() -> None:
    grids = [triad_gpu.launch(16, 16, 16, "float64", length, 132).grid for length in (0, 1, 512, 513, 2**27)]
    assert grids == [(blocks, 1, 1) for blocks in (1, 1, 1, 2, 528)]


def test_a_copy_is_counted_by_its_bytes_and_compared_bit_by_bit() -> None:
    assert copy.nbytes(copy.Shape(10)) == 160 and copy.operations(copy.Shape(10)) == 0
    b = np.random.default_rng(1).standard_normal(300_001)
    (way,) = vendor.prepare(copy.Shape(len(b)), "ceiling", b, "cpu", 1)
    assert verify.residual(copy.SPEC, copy.Shape(len(b)), "ceiling", "fp64", b, way) == np.inf
    way.call()
    assert verify.residual(copy.SPEC, copy.Shape(len(b)), "ceiling", "fp64", b, way) == 0
    way.result()[-1] *= 1 + 2.0**-52
    assert verify.residual(copy.SPEC, copy.Shape(len(b)), "ceiling", "fp64", b, way) == np.inf


@pytest.mark.skipif(not torch.cuda.is_available(), reason="NO GPU: ITS MEMORY IS NOT MEASURED")
@pytest.mark.parametrize("provider", ["custom", "vendor"])
def test_on_a_gpu_every_number_is_right(provider: str) -> None:
    from hpcai.kernels.providers import backend

    b, c = np.random.default_rng(1).standard_normal((2, 3_000_017))
    for module, data in ((triad, triad.Vectors(b, c)), (copy, b)):
        shape = module.Shape(len(b))
        for way in backend(module.SPEC, provider, "cuda").prepare(shape, "ceiling", data, "cuda:0", 1):
            way.poison_result()
            way.call()
            assert verify.residual(module.SPEC, shape, "ceiling", "fp64", data, way) < 0.5
