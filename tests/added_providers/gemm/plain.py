"""A third provider of the matrix product, by NumPy: adding a provider takes only this file in the kernel's folder."""

from functools import partial

import numpy as np

from hpcai.kernels.arrays import poisoned, prepared
from hpcai.kernels.gemm import Shape
from hpcai.kernels.gemm.reference import factors
from hpcai.kernels.providers import Prepared, Unavailable
from hpcai.kernels.spec import FORWARD, INPUT_GRADIENT, Tensors, dtype_of

PROVIDER = "plain"
DEVICES = ("cpu",)


def prepare(shape: Shape, direction: str, data: Tensors, device: str, threads: int) -> list[Prepared]:
    """np.matmul; Unavailable for int8, whose products np.matmul would store as bytes."""
    if dtype_of(data) not in ("fp32", "fp64"):
        raise Unavailable(f"{dtype_of(data)} products by NumPy")
    result = poisoned(shape.result(direction), data.x.dtype.name)
    product = result if direction in (FORWARD, INPUT_GRADIENT) else result.T
    return [prepared(lambda data: partial(np.matmul, *factors(direction, data), out=product), data, result)]
