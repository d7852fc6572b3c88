"""Preconditions of `[kernels]`: networks that can be built, and compiled custom kernels."""

from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import torch

from hpcai.inputfile import Case
from hpcai.kernels import conv2d, copy, fma_peak, gemm, triad
from hpcai.kernels.providers import CUSTOM, Unavailable, backend
from hpcai.kernels.spec import DIRECTIONS, DTYPES, INPUT_GRADIENT, S, Spec, T
from hpcai.kernels.verify import drawn
from hpcai.opcount import products
from hpcai.opcount.ceilings import COPY, FMA_PEAK, Ceiling, ceilings
from hpcai.preflight.library_loading import LAYERS, SIDE
from hpcai.preflight.preconditions import Piece, Preconditions


def _check(case: Case, dataset: Any) -> None:
    products.requested(case)  # builds the networks


def _pieces(device: torch.device, compiled: bool, custom: bool) -> list[Piece]:
    """Compile custom kernels in all measured types and directions."""
    if not compiled:
        return []
    matrices, types = gemm.Shape(SIDE, SIDE, SIDE), [name for name, kinds in DTYPES.items() if not kinds.on_gpus]
    pieces = (
        *(partial(_product, gemm.SPEC, matrices, direction, "fp32", device) for direction in DIRECTIONS),
        *(partial(_product, gemm.SPEC, matrices, INPUT_GRADIENT, dtype, device) for dtype in types),
        *(partial(_ceiling, ceiling, device) for ceiling in ceilings(device.type == "cuda")),
        *(partial(_product, conv2d.SPEC, layer, way, "fp32", device) for layer in LAYERS for way in DIRECTIONS),
    )
    return [partial(_where_available, piece) for piece in pieces]


def _where_available(piece: Piece) -> None:
    """Nothing where a type has native instructions, or lacks some, so that there is no kernel."""
    with suppress(Unavailable):
        piece()


def _ceiling(ceiling: Ceiling, device: torch.device) -> None:
    vectors = triad.Vectors(np.ones(SIDE), np.ones(SIDE))
    if ceiling.kernel == FMA_PEAK:
        provider = fma_peak.peak_provider(device.type)
        shape = provider.shape(ceiling.dtype, 1, str(device), torch.get_num_threads())
        _call(fma_peak.SPEC, shape, "", fma_peak.Numbers(ceiling.dtype), device)
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


PRECONDITIONS = Preconditions(check=_check, pieces=_pieces)
