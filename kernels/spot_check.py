"""Spot check of a result: some elements at random places against float64, and poison in their place before a call.

It takes microseconds, so it runs after every timed stretch of calls, where the whole result is checked at the beginning
and the end only (kernels/verify.py).
"""

from collections.abc import Sequence
from secrets import randbits
from typing import Any

import numpy as np

from . import attention
from .arrays import poison
from .attention import reference as attention_reference
from .conv2d import reference as conv2d_reference
from .copy import reference as copy_reference
from .fma_peak import reference as fma_peak_reference
from .gemm import reference as gemm_reference
from .providers import Prepared
from .residual import compare, worst, wrong
from .spec import DTYPES, Block, Compared, Float64, Spec
from .triad import Vectors
from .triad import reference as triad_reference
from .verify import ATTENTION, tolerance_of

COUNT = 32  # elements; a result of which half is missing passes with probability 2^-32
Places = tuple[Any, ...]  # an array of indices for each dimension
TERMS: Any = {"gemm": gemm_reference.terms, "conv2d": conv2d_reference.terms}


class SpotCheck:
    """Expected elements of a prepared product for each set of operands, at places drawn from the system's entropy."""

    def __init__(
        self, spec: Spec[Any], shape: Any, direction: str, dtype: str, sets: Sequence[Any], found: Prepared
    ) -> None:
        assert found.view is not None, "a product that is timed has a view of its result"
        self._view, self._dtype = found.view, dtype
        tolerance = tolerance_of(spec, shape, direction, dtype, found.slack)
        self._places = places(tuple(found.view().shape), len(shape.y) - 2 if spec.name == ATTENTION else 0)
        self._expected = [
            expected(spec, shape, direction, dtype, data, tolerance, self._places) for data in sets
        ]
        self.worst, self.count = 0.0, 0

    def poison(self) -> None:
        """Poison the elements: a call must compute them anew."""
        result = self._view()
        result[self._places] = poison(_type_on_host(result))

    def check(self, last: int) -> None:
        """Compare the elements with those of the set of operands that was computed last."""
        exact, allowed = self._expected[last]
        part = Compared(self._values(), exact, allowed)
        found = wrong([part]) if DTYPES[self._dtype].exact else worst([part])
        self.worst, self.count = max(self.worst, found), self.count + 1

    def _values(self) -> Float64:
        values = self._view()[self._places]
        if not isinstance(values, np.ndarray):
            from .tensors import on_host

            values = on_host(values)
        return np.asarray(values, np.float64)


def _type_on_host(result: Any) -> str:
    if isinstance(result, np.ndarray):
        return str(result.dtype.name)
    from .tensors import host_type

    return host_type(result)


def places(size: tuple[int, ...], shared: int = 0) -> Places:
    """Places of a result, drawn from the system's entropy.

    The last indices but two, `shared` of them, are the same for all places: those of attention are of one head.
    """
    generator, first = np.random.default_rng(randbits(128)), len(size) - 2 - shared
    drawn = (generator.integers(0, extent, COUNT) for extent in size)
    return tuple(np.full(COUNT, each[0]) if 0 <= at - first < shared else each for at, each in enumerate(drawn))


def expected(
    spec: Spec[Any], shape: Any, direction: str, dtype: str, data: Any, tolerance: float, where: Places
) -> tuple[Float64, Float64]:
    """Exact elements and their allowed differences."""
    none = np.zeros(COUNT)
    if spec.name == "fma_peak":
        (part,) = fma_peak_reference.compared(none, shape, tolerance, data.term)
    elif spec.name == "triad":
        part = triad_reference.elements(none, Vectors(data.b[where], data.c[where]), tolerance)
    elif spec.name == "copy":
        (part,) = copy_reference.compared(none, data[where])
    else:
        return _of_product(spec, shape, direction, dtype, data, tolerance, where)
    return part.exact, part.allowed


def _of_product(
    spec: Spec[Any], shape: Any, direction: str, dtype: str, data: Any, tolerance: float, where: Places
) -> tuple[Float64, Float64]:
    if spec.name == ATTENTION:
        return _of_attention(shape, direction, data, where)
    parts = []
    for place in zip(*where, strict=True):
        left, right = TERMS[spec.name](direction, data, shape, place)
        block = Block(left[None, :], right[:, None], np.zeros((1, 1)))
        parts.append(compare(block, tolerance, DTYPES[dtype].arithmetic))
    return np.array([part.exact.item() for part in parts]), np.array([part.allowed.item() for part in parts])


def _of_attention(shape: attention.Shape, direction: str, data: Any, where: Places) -> tuple[Float64, Float64]:
    """Of one head."""
    *which, sample, head, place, feature = where
    known = attention_reference.bounded(data, shape, direction, int(sample[0]) * shape.heads + int(head[0]))
    parts = which[0] if which else np.zeros(COUNT, int)
    exact, allowed = (np.stack([getattr(each, name) for each in known]) for name in ("exact", "allowed"))
    return exact[parts, place, feature], allowed[parts, place, feature]
