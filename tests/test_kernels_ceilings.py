"""The kernels of the ceilings compute the right numbers, on any number of threads."""

from typing import Any

import numpy as np
import pytest

from hpcai.kernels import fma_peak, triad
from hpcai.kernels.fma_peak import numba_cpu as fma_custom
from hpcai.kernels.fma_peak.reference import repeated
from hpcai.kernels.triad import numba_cpu as triad_custom
from hpcai.kernels.triad import vendor as triad_vendor
from hpcai.kernels.triad.reference import triad as exact_triad

KINDS = [np.float32, np.float64]


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_every_sum_has_every_step(kind: Any, threads: int) -> None:
    assert (fma_custom.peak(kind, 1.0, 1.0, 4096, threads) == 4096).all()
    sums = fma_custom.peak(kind, 0.5, 3.0, 60, threads)
    assert sums.shape[0] == threads
    assert np.abs(sums - repeated(0.5, 3.0, 60)).max() <= 8 * np.finfo(kind).eps * 6


def test_operations_of_the_peak_by_hand() -> None:
    shape = fma_custom.shape("fp32", 100, "cpu", 2)
    assert shape.sums == fma_custom.peak(np.float32, 1.0, 1.0, 4, 2).size
    assert fma_peak.operations(shape) == 2 * shape.sums * 100


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [0, 1, 15, 16, 1000, 100_003])
def test_the_triad_computes_every_element(kind: Any, count: int) -> None:
    generator = np.random.default_rng(1)
    b, c = (generator.standard_normal(count).astype(kind) for _ in range(2))
    for threads in (1, 2, 3):
        a = np.full(count + 1, np.nan, kind)
        triad_custom.triad(a[:count], b, c, 3.0, threads)
        assert np.allclose(a[:count], exact_triad(b, c, 3.0), rtol=0, atol=8 * np.finfo(kind).eps * 20)
        assert np.isnan(a[count])
    a = np.full(count, np.nan, kind)
    triad_vendor.triad(a, b, c, 3.0)
    assert np.allclose(a, exact_triad(b, c, 3.0), rtol=0, atol=8 * np.finfo(kind).eps * 20)


def test_bytes_of_the_triad_by_hand() -> None:
    assert triad.nbytes(triad.Shape(10)) == 240 and triad.operations(triad.Shape(10)) == 20
