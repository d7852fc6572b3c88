"""Faults in times, which make a training faster than its processor can be."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace
from planting import Fault, replaced

from hpcai.preflight import processor_cycles
from hpcai.training import stages


def _shorter(by: float) -> Fault:
    """All times of the timed region are divided."""

    def make(genuine: Callable[..., Any]) -> Any:
        def times_of(*arguments: Any) -> Any:
            found = genuine(*arguments)
            names = ("training", "data_wait", "exposed_communication")
            return found._replace(
                phases=replace(found.phases, **{name: getattr(found.phases, name) / by for name in names})
            )

        return times_of

    return replaced(stages, "times_of", make)


def time_divided_by_1000() -> Fault:
    return _shorter(1000.0)


def time_divided_by_100000() -> Fault:
    return _shorter(100000.0)


def cycles_not_computed() -> Fault:
    """The chain of dependent operations returns before its end."""
    from hpcai.kernels.cycles import numba_cpu

    return replaced(numba_cpu, "chain", lambda genuine: lambda start, flipped, added, count: genuine(
        start, flipped, added, 1
    ))


def processor_not_in_the_table() -> Fault:
    return replaced(processor_cycles, "identity", lambda _: lambda: None)
