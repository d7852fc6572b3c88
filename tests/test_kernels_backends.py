"""The convention: every measured kernel has the same files, and every backend prepares products in the same way."""

import inspect
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from launch import ROOT
from sampled_parameters import one_in

from hpcai.kernels import arrays, conv2d, copy, fma_peak, gemm, triad, verify
from hpcai.kernels.providers import CUSTOM, VENDOR, Prepared, Unavailable, backend, declared, providers
from hpcai.kernels.spec import DIRECTIONS, DTYPES, dtype_of

SPECS = {each.SPEC.name: each.SPEC for each in (gemm, conv2d, copy, fma_peak, triad)}
SMALL = {"gemm": gemm.Shape(5, 7, 3), "conv2d": conv2d.Shape(2, 3, 5, 4, 4, (3, 2), (2, 1), (1, 1))}
PARAMETERS = ["shape", "direction", "data", "device", "threads"]
TYPES = ("fp32", "fp64", "int8")  # types that CPUs compute
BACKENDS = [(name, *where) for name in SPECS for where in declared(name)]
ON_CPUS = [(name, provider) for name, provider, device in BACKENDS if name in SMALL and device == "cpu"]


@pytest.mark.parametrize("kernel", SPECS)
def test_every_file_with_prepare_declares_its_provider(kernel: str) -> None:
    files = (ROOT / "kernels" / kernel).glob("*.py")
    assert {path.stem for path in files if "\ndef prepare(" in path.read_text()} == set(declared(kernel).values())
    assert set(providers(SPECS[kernel])) <= {CUSTOM, VENDOR}


@pytest.mark.parametrize(("kernel", "provider", "device"), BACKENDS)
def test_every_backend_prepares_with_the_same_arguments(kernel: str, provider: str, device: str) -> None:
    assert list(inspect.signature(backend(SPECS[kernel], provider, device).prepare).parameters) == PARAMETERS


@pytest.mark.parametrize("dtype", one_in(3, TYPES))
@pytest.mark.parametrize(("kernel", "provider"), ON_CPUS)
def test_prepared_products_are_computed_when_they_are_called(kernel: str, provider: str, dtype: str) -> None:
    if (kernel, dtype) == ("conv2d", "int8"):
        pytest.skip("NO CONVOLUTION OF BYTES")
    shape, limit = SMALL[kernel], 0.0 if dtype == "int8" else 1.0
    data = verify.drawn(shape, dtype, 3)
    for direction in DIRECTIONS:
        ways = backend(SPECS[kernel], provider, "cpu").prepare(shape, direction, data, "cpu", 2)
        assert ways and all(isinstance(way, Prepared) for way in ways)
        assert len({way.variant for way in ways}) == len(ways)
        for way in ways:
            for _ in range(2):
                way.call()
            assert verify.residual(SPECS[kernel], shape, direction, dtype, data, way) <= limit


@pytest.mark.skipif("not torch.cuda.is_available()", reason="NO GPU: MEMORY GIVEN BACK TOO EARLY IS NOT SEEN")
@pytest.mark.parametrize("kernel", SMALL)
@pytest.mark.parametrize("provider", [CUSTOM, VENDOR])
def test_prepared_products_keep_the_memory_of_their_operands(kernel: str, provider: str) -> None:
    shape, data = SMALL[kernel], verify.drawn(SMALL[kernel], "fp32", 3)
    for direction in DIRECTIONS:
        ways = backend(SPECS[kernel], provider, "cuda").prepare(shape, direction, data, "cuda:0", 1)
        others = [torch.full((size,), torch.nan, device="cuda:0") for size in (100, 200, 400) for _ in range(50)]
        for way in ways:
            way.call()
            assert verify.residual(SPECS[kernel], shape, direction, "fp32", data, way) <= 1, len(others)


@pytest.mark.parametrize("dtype", one_in(3, TYPES))
@pytest.mark.parametrize("provider", [CUSTOM, VENDOR])
def test_results_are_poisoned_before_and_keep_their_address(provider: str, dtype: str) -> None:
    shape = SMALL["gemm"]
    (way,) = backend(gemm.SPEC, provider, "cpu").prepare(shape, "forward", verify.drawn(shape, dtype, 3), "cpu", 1)
    before = way.result()
    if (provider, dtype) != (VENDOR, "int8"):  # torch's int8 product is tried when it is prepared
        assert np.isnan(before).all() if dtype != "int8" else (before == np.iinfo(np.int32).min).all()
    way.call()
    assert way.result().ctypes.data == before.ctypes.data and np.isfinite(before).all()


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype not in TYPES])
@pytest.mark.parametrize("provider", [CUSTOM, VENDOR])
def test_types_of_tensor_cores_are_unavailable_on_a_cpu(provider: str, dtype: str) -> None:
    data = verify.drawn(SMALL["gemm"], dtype, 3)
    assert dtype_of(data) == dtype_of(data._replace(x=data.x.T)) == dtype and data.x.dtype == np.float32
    with pytest.raises(Unavailable, match=f"^{dtype} products "):
        backend(gemm.SPEC, provider, "cpu").prepare(SMALL["gemm"], "forward", data, "cpu", 1)


def test_bytes_of_every_type() -> None:
    shape = SMALL["gemm"]
    assert gemm.SPEC.nbytes(shape, "forward", "fp64") == 2 * gemm.SPEC.nbytes(shape)
    assert gemm.SPEC.nbytes(shape, "forward", "int8") == 5 * 7 + 3 * 7 + 4 * 5 * 3
    assert gemm.SPEC.nbytes(shape, "weight_gradient", "int8") == 5 * 7 + 4 * 3 * 7 + 5 * 3
    assert 2 * gemm.SPEC.nbytes(shape, "forward", "bf16") == gemm.SPEC.nbytes(shape, "forward", "tf32")


def test_missing_backends_are_unavailable_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unavailable, match="there is no gemm by absent on a cuda"):
        backend(gemm.SPEC, "absent", "cuda")
    with pytest.raises(Unavailable, match="there is no fma_peak by vendor on a cpu"):
        backend(fma_peak.SPEC, "vendor", "cpu")
    monkeypatch.delitem(sys.modules, "hpcai.kernels.triad.vendor", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(Unavailable, match="triad/vendor.py: .*torch"):
        backend(triad.SPEC, "vendor", "cpu")


def test_int8_products_that_torch_refuses_are_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise RuntimeError("self.size(0) needs to be greater than 16\nmore")

    shape = SMALL["gemm"]
    monkeypatch.setattr(torch, "_int_mm", refuse)
    with pytest.raises(Unavailable, match="torch._int_mm: self.size.0. needs to be greater than 16$"):
        backend(gemm.SPEC, VENDOR, "cpu").prepare(shape, "forward", verify.drawn(shape, "int8", 3), "cpu", 1)
    assert backend(gemm.SPEC, VENDOR, "cpu").prepare(shape, "forward", verify.drawn(shape, "fp32", 3), "cpu", 1)


def test_a_new_backend_is_found_by_its_file_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    declarations = 'PROVIDER = "another"\nDEVICES = ("cpu",)\n'
    prepare = "def prepare(shape, direction, data, device, threads):\n    return []\n"
    (tmp_path / "another_cpu.py").write_text(declarations + prepare)
    monkeypatch.setattr(copy, "__path__", [*copy.__path__, str(tmp_path)])
    assert providers(copy.SPEC) == (CUSTOM, VENDOR, "another")
    assert backend(copy.SPEC, "another", "cpu").prepare(copy.Shape(1), "", None, "cpu", 1) == []
    sys.modules.pop("hpcai.kernels.copy.another_cpu")
    (tmp_path / "twice.py").write_text(declarations + prepare)
    monkeypatch.setattr(copy, "__path__", [*copy.__path__, str(tmp_path)])
    with pytest.raises(AssertionError, match="another_cpu.py and twice.py"):
        providers(copy.SPEC)


@pytest.mark.parametrize("size", [(3,), (5, 7), (2, 3, 4, 5)])
def test_memory_of_products_begins_at_a_cache_line(size: tuple[int, ...]) -> None:
    whole = np.arange(np.prod(size), dtype=np.float32).reshape(size)
    made = arrays.aligned(whole.T)
    assert made.flags.c_contiguous and made.ctypes.data % arrays.LINE == 0 and np.array_equal(made, whole.T)
    assert arrays.poisoned(size, "float64").ctypes.data % arrays.LINE == 0
