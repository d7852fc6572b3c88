"""A planned product: what fills the target of a correlation, or its weights with their gradient."""

from collections.abc import Callable
from typing import Any

from ...cpu.epilogue import NONE
from ...cpu.function_pointer import FunctionPointer, function_pointer
from ...cpu.program import PRODUCT
from ...cpu.stored_arguments import Stored
from ...cpu.workspace import workspace


class Computation:
    """Called with byte offsets of source, weights and target from the addresses of the plan, and perhaps an epilogue's.

    nbytes: of the memory that it needs.
    """

    def __init__(self, compute: Callable[..., None], one: Any, plan: Stored, threads: int, nbytes: int) -> None:
        """compute: a compiled function of the kind PRODUCT (program.py)."""
        self._compute, self._one, self._plan, self._threads = compute, one, plan, threads
        self.nbytes = nbytes

    def __call__(self, source: int, weights: int, target: int, epilogue: int = NONE) -> None:
        memory = workspace(self.nbytes)
        self._compute(self._one, self._plan.address, self._threads, source, weights, target, memory, epilogue)

    def instruction(self, *given: Any) -> tuple[Any, ...]:
        """Its instruction; given: source, weights, target, memory and epilogue."""
        pointer: FunctionPointer = function_pointer(self._compute, self._one, 0, 0, 0, 0, 0, 0, 0)
        return *pointer, PRODUCT, self._plan.address, self._threads, *given
