"""A site's own kernels, as small as they can be: `bench.py --set KERNELS=vendor,custom,file:contrib/site_kernels.py`.

Matrix products by NumPy, hence by whatever BLAS NumPy was built with; of convolutions those of one pixel as well. All
else is left to ours. docs/TUNING.md tells what these functions are given, and how they are judged.
"""

import numpy as np
from torch import Tensor, channels_last

from hpcai.kernels.conv2d import Shape
from hpcai.kernels.operators import on_cpu
from hpcai.kernels.spec import FORWARD


def multiply(a: Tensor, b: Tensor, result: Tensor) -> None:
    """result = A B, of float[m, k] and float[k, n], each with any strides; `result` lies by rows."""
    if a.itemsize == 2:  # 16 bits, which NumPy sums in 16 bits
        on_cpu.multiply(a, b, result)
    else:
        np.matmul(a.numpy(), b.numpy(), out=result.numpy())


def convolve(direction: str, one: Tensor, other: Tensor, result: Tensor, shape: Shape) -> None:
    """Forward y of x and w, the input's gradient of that of y and w, or the weights' gradient of x and that of y.

    `result` lies with its channels last; what is given may lie in any way.
    """
    if direction != FORWARD or (shape.kernel, shape.stride, shape.padding) != ((1, 1), (1, 1), (0, 0)):
        on_cpu.convolve(direction, one, other, result, shape)
        return
    pixels = one.contiguous(memory_format=channels_last).permute(0, 2, 3, 1).reshape(-1, shape.channels)
    multiply(pixels, other.flatten(1).t(), result.permute(0, 2, 3, 1).view(-1, shape.filters))
