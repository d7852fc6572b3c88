"""Results of a provider's products."""

from collections.abc import Collection
from typing import Any

from hpcai.kernels.layers import LayerShape
from hpcai.kernels.providers import Provider
from hpcai.kernels.spec import Tensors


def results_of(
    provider: Provider[Any],
    data: Tensors,
    shape: LayerShape,
    device: str,
    directions: Collection[str],
    stored: str = "",
    threads: int = 1,
) -> dict[str, Any]:
    """y, dx, dw by direction, of a provider with one way; the type is that of the data, whatever `stored` says."""
    found = {}
    for direction in directions:
        (way,) = provider.prepare(shape, direction, data, device, threads)
        way.call()
        found[direction] = way.result()
    return found
