"""Minimal example of site kernels: `bench.py --set KERNELS=vendor,custom,file:contrib/site_kernels.py`.

NumPy, with the BLAS it was built with, computes matrix products and convolutions with 1 x 1 kernels. The custom kernels
compute everything else. docs/TUNING.md describes the arguments of these functions and their verification.
"""

import numpy as np
from torch import Tensor, channels_last

from hpcai.kernels.conv2d import Shape
from hpcai.kernels.operators import on_cpu
from hpcai.kernels.spec import FORWARD


def multiply(a: Tensor, b: Tensor, result: Tensor) -> None:
    """result = A B for float[m, k] and float[k, n] with any strides; `result` is stored by rows."""
    if a.itemsize == 2:  # NumPy would accumulate 16-bit numbers in 16 bits
        on_cpu.multiply(a, b, result)
    else:
        np.matmul(a.numpy(), b.numpy(), out=result.numpy())


def convolve(direction: str, one: Tensor, other: Tensor, result: Tensor, shape: Shape) -> None:
    """Forward: y from x and w. Backward: the gradient of x from that of y and w, or of w from x and that of y.

    `result` has its channels last in memory; the arguments may have any strides.
    """
    if direction != FORWARD or (shape.kernel, shape.stride, shape.padding) != ((1, 1), (1, 1), (0, 0)):
        on_cpu.convolve(direction, one, other, result, shape)
        return
    pixels = one.contiguous(memory_format=channels_last).permute(0, 2, 3, 1).reshape(-1, shape.channels)
    multiply(pixels, other.flatten(1).t(), result.permute(0, 2, 3, 1).view(-1, shape.filters))
