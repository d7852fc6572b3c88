"""The real program with a fault in each test of its sweep: faulty.py FAULT,FAULT,... [arguments of bench.py].

One fault a test, in the order of the tests; `none` leaves a test alone.
"""

import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import data_faults
import judging_faults
import precision_faults
import rank_faults
import training_faults
from planting import Fault, replaced

from hpcai.driver import main
from hpcai.workloads import ensemble

MODULES = (training_faults, judging_faults, data_faults, rank_faults, precision_faults)


def fault_named(name: str) -> Fault:
    """A fault that is not planted yet."""
    if name == "none":
        return nullcontext()
    module = next(module for module in MODULES if hasattr(module, name))
    fault: Fault = getattr(module, name)()
    return fault


def plant(faults: list[str]) -> None:
    """From now on, test i of the sweep (from 1) runs with fault i - 1."""

    def make(genuine: Callable[..., Any]) -> Any:
        def run(case: Any, *arguments: Any) -> Any:
            with fault_named(faults[case.index - 1]):
                return genuine(case, *arguments)

        return run

    replaced(ensemble, "run", make).__enter__()


if __name__ == "__main__":
    plant(sys.argv[1].split(","))
    sys.exit(main(sys.argv[2:]))
