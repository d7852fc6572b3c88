"""Measurements of a rank's ceilings: FMA peak in registers, memory bandwidth of the triad."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from hpcai.estimate import Rank
from hpcai.kernels.copy import SPEC as COPY
from hpcai.kernels.copy import Shape as CopyShape
from hpcai.kernels.fma_peak import SPEC as FMA_PEAK
from hpcai.kernels.fma_peak import TERM, Numbers, peak_provider
from hpcai.kernels.fma_peak import Shape as PeakShape
from hpcai.kernels.providers import Unavailable
from hpcai.kernels.triad import SPEC as TRIAD
from hpcai.kernels.triad import Shape as TriadShape
from hpcai.kernels.triad import Vectors
from hpcai.opcount.ceilings import CEILING, Ceiling
from hpcai.opcount.ceilings import ceilings as every_ceiling
from hpcai.workloads.kernels.plan import triad_length
from hpcai.workloads.kernels.product_timing import MeasuringRanks, ProductNames, Task
from hpcai.workloads.kernels.record import MeasuredKernel

STEPS = 2**20  # steps of a sum: some milliseconds, and exact in fp32
DRAWN = 2**16  # distinct numbers in the vectors


def ceilings(measuring: MeasuringRanks, rank: Rank) -> Iterator[Task]:
    """Measurements of the FMA peak of each type, then of memory; the same on every rank. Collective."""
    for ceiling in every_ceiling(rank.accelerated):
        yield _peak(ceiling, measuring) if ceiling.kernel == FMA_PEAK.name else _of_vectors(ceiling, measuring, rank)


def _peak(ceiling: Ceiling, measuring: MeasuringRanks) -> Task:
    shape = PeakShape(0, 0)  # no backend reports its own
    with suppress(Unavailable):  # reported by its preparation
        module = peak_provider(measuring.device.type)
        shape = module.shape(ceiling.dtype, STEPS, str(measuring.device), measuring.threads)
    return _task(FMA_PEAK, shape, f"sums{shape.sums} steps{shape.steps}", ceiling, lambda: _numbers(ceiling.dtype))


def _of_vectors(ceiling: Ceiling, measuring: MeasuringRanks, rank: Rank) -> Task:
    length = measuring.least(triad_length(rank))
    if ceiling.kernel == COPY.name:
        return _task(COPY, CopyShape(length), f"length{length}", ceiling, lambda: (*vectors(length),))
    return _task(TRIAD, TriadShape(length), f"length{length}", ceiling, lambda: _both_ways(vectors(length)))


def _numbers(dtype: str) -> tuple[Numbers, Numbers]:
    """The sums of TERM, and those of -TERM."""
    return Numbers(dtype), Numbers(dtype, -TERM)


def _both_ways(vectors: Vectors) -> tuple[Vectors, Vectors]:
    """The operands, and the same ones exchanged, which needs no more memory."""
    return vectors, Vectors(vectors.c, vectors.b)


def vectors(length: int) -> Vectors:
    """Operands of a triad, drawn; the same on every rank."""
    generator = np.random.Generator(np.random.Philox(1))
    return Vectors(*(np.resize(generator.standard_normal(DRAWN), length) for _ in range(2)))


def _task(spec: Any, shape: Any, text: str, ceiling: Ceiling, data: Any) -> Task:
    names = ProductNames(ceiling.kernel, CEILING, text, CEILING, 1, ceiling.dtype)
    return Task(names, spec, shape, CEILING, data, ceiling.providers)


def peak(rows: Iterable[MeasuredKernel], dtype: str) -> float | None:
    """FLOP/s of the slowest rank in registers; None where not measured."""
    rates = (row.operations / row.seconds for row in rows if (row.kernel, row.dtype) == (FMA_PEAK.name, dtype))
    return next(rates, None)
