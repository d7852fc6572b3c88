"""Modules of providers checked against their contract by mypy (`make lint`); this file is checked, never run."""

from hpcai.kernels import attention, conv2d, copy, fma_peak, gemm, triad
from hpcai.kernels.attention import cupy_gpu as attention_gpu
from hpcai.kernels.attention import numba_cpu as attention_cpu
from hpcai.kernels.attention import vendor as attention_vendor
from hpcai.kernels.conv2d import cupy_gpu as conv2d_gpu
from hpcai.kernels.conv2d import numba_cpu as conv2d_cpu
from hpcai.kernels.conv2d import vendor as conv2d_vendor
from hpcai.kernels.copy import cupy_gpu as copy_gpu
from hpcai.kernels.copy import vendor as copy_vendor
from hpcai.kernels.fma_peak import cupy_gpu as fma_peak_gpu
from hpcai.kernels.fma_peak import numba_cpu as fma_peak_cpu
from hpcai.kernels.gemm import cupy_gpu as gemm_gpu
from hpcai.kernels.gemm import numba_cpu as gemm_cpu
from hpcai.kernels.gemm import vendor as gemm_vendor
from hpcai.kernels.providers import Provider
from hpcai.kernels.triad import cupy_gpu as triad_gpu
from hpcai.kernels.triad import numba_cpu as triad_cpu
from hpcai.kernels.triad import vendor as triad_vendor

GEMM: list[Provider[gemm.Shape]] = [gemm_cpu, gemm_gpu, gemm_vendor]
CONV2D: list[Provider[conv2d.Shape]] = [conv2d_cpu, conv2d_gpu, conv2d_vendor]
ATTENTION: list[Provider[attention.Shape]] = [attention_cpu, attention_gpu, attention_vendor]
COPY: list[Provider[copy.Shape]] = [copy_gpu, copy_vendor]
TRIAD: list[Provider[triad.Shape]] = [triad_cpu, triad_gpu, triad_vendor]
FMA_PEAK: list[fma_peak.PeakProvider] = [fma_peak_cpu, fma_peak_gpu]
