"""Rates that no processor exceeds: cycles per second x widest known units x threads, with a margin.

A rate above such a bound is an error of the measurement and FAILED. Rates above a measured ceiling (FMA peak, triad)
are only printed: a ceiling that was measured under load is low.
"""

from collections.abc import Iterable, Iterator

from hpcai.formulas.precision import PRECISIONS
from hpcai.formulas.processor_units import NVIDIA, Units, units_of
from hpcai.formulas.score import LARGEST
from hpcai.inputfile import Case
from hpcai.kernels.providers import CUSTOM
from hpcai.networks.graph import Graph
from hpcai.opcount.needed import network_share
from hpcai.record import check_declarations as declared
from hpcai.record.entry import Check
from hpcai.record.processor import Processor

MARGIN = 1.1  # for cycles that were measured while others used the core, and frequencies that rise later


def operations_bound(processor: Processor | None, dtype: str) -> float | None:
    """Operations per second of a rank on a type of the products; None of an unknown processor."""
    units = known(processor)
    return MARGIN * processor.cycles * processor.units * units.operations(dtype) if processor and units else None


def bytes_bound(processor: Processor | None) -> float | None:
    """Bytes per second that a rank loads and stores, in caches as well; None of an unknown processor."""
    units = known(processor)
    return MARGIN * processor.cycles * processor.units * units.moved if processor and units else None


def known(processor: Processor | None) -> Units | None:
    """The units of a processor; None if it is not in the table."""
    if processor is None:
        return None
    return units_of(processor.vendor, processor.family, processor.model, processor.features)


def device_of(processor: Processor) -> str:
    """The type of the device, as torch names it."""
    return "cuda" if processor.vendor == NVIDIA else "cpu"


def training_bound(case: Case, processor: Processor | None, graphs: Iterable[Graph]) -> float | None:
    """FLOPS of a rank that trains some of these networks, by the rule of the headline; None of an unknown processor."""
    bound = operations_bound(processor, PRECISIONS[case.precision].product)
    if processor is None or bound is None:
        return None
    device, vendor = device_of(processor), case.kernels != CUSTOM
    return bound * max(network_share(graph, device, vendor) for graph in graphs)


def within_bound(rate: float, bound: float | None, processor: Processor | None) -> Iterator[Check]:
    """The check of a rank's FLOPS; none where no processor was recorded, as in older results."""
    if processor is not None:
        yield declared.BOUND.not_checked() if bound is None else declared.BOUND.of(share(rate, bound))


def share(rate: float, bound: float) -> float:
    """Rate / bound; the largest number there is for a bound of 0, of cycles that were not computed."""
    return min(rate / bound, LARGEST) if bound else LARGEST
