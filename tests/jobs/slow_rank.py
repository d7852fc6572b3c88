"""The real program on two ranks, one of them slow: rank 0 in the odd tests of the sweep, rank 1 in the even ones."""

import sys
from collections.abc import Callable
from time import sleep
from typing import Any

from planting import RANK, replaced

from hpcai.main import main
from hpcai.train.loop import Training
from hpcai.workloads.ensemble import measure

DELAY = 0.1  # seconds a step


def plant() -> None:
    """From now on each step of the slow rank takes longer."""

    def slowly(genuine: Callable[..., Any]) -> Any:
        def step(*arguments: Any) -> None:
            sleep(DELAY)
            genuine(*arguments)

        return step

    def make(genuine: Callable[..., Any]) -> Any:
        def run(case: Any, *arguments: Any) -> Any:
            if (case.index - 1) % 2 != RANK:
                return genuine(case, *arguments)
            with replaced(Training, "_step", slowly):
                return genuine(case, *arguments)

        return run

    replaced(measure, "run", make).__enter__()


if __name__ == "__main__":
    plant()
    sys.exit(main(sys.argv[1:]))
