"""The real program with a fault in each test of its sweep: faulty.py FAULT,FAULT,... [arguments of bench.py].

One fault a test, in the order of the tests; `none` leaves a test unchanged.
"""

import sys
from collections.abc import Callable
from contextlib import nullcontext
from importlib import import_module
from typing import Any

from planting import Fault, replaced

from hpcai.main import main
from hpcai.train import replay
from hpcai.training import stages

MODULES = (
    "training_faults", "evaluation_faults", "data_faults", "rank_faults", "precision_faults", "detection_faults",
    "kernel_faults", "gradient_faults", "optimiser_faults", "shard_faults", "stage_faults", "clock_faults",
    "step_faults", "judgement_faults", "content_faults", "recipe_faults", "limit_faults", "vote_faults",
    "network_faults", "language_faults",
)

ENTROPY = 1  # from which audited steps are drawn: the same in every run, so that a fault in one step is met or not


def fault_named(name: str) -> Fault:
    """A fault that is not planted yet."""
    if name == "none":
        return nullcontext()
    module = next(module for module in map(import_module, MODULES) if hasattr(module, name))
    fault: Fault = getattr(module, name)()
    return fault


def plant(faults: list[str]) -> None:
    """From now on, test i of the sweep (from 1) runs with fault i - 1."""

    def make(genuine: Callable[..., Any]) -> Any:
        def run(discipline: Any, case: Any, *arguments: Any) -> Any:
            with fault_named(faults[case.index - 1]):
                return genuine(discipline, case, *arguments)

        return run

    replaced(stages, "run", make).__enter__()


if __name__ == "__main__":
    replaced(replay, "randbits", lambda genuine: lambda bits: ENTROPY).__enter__()
    plant(sys.argv[1].split(","))
    sys.exit(main(sys.argv[2:]))
