"""A planned product: what fills the target of a correlation, or its weights with their gradient."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ...cpu.epilogue import NONE
from ...cpu.function_pointer import FunctionPointer, function_pointer
from ...cpu.program import GIVEN, PRODUCT, Address, Program
from ...cpu.simd import LINE
from ...cpu.stored_arguments import Stored
from ...cpu.workspace import workspace

FEW = 2  # computations that Python calls one by one: a program takes as long as two calls


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


def in_order(computations: Sequence[Computation], one: Any) -> Callable[..., None]:
    """The function that calls all with the same arguments; many by a program."""
    return partial(_one_by_one, computations) if len(computations) <= FEW else by_threads(computations, one, 1)


def by_threads(computations: Sequence[Computation], one: Any, threads: int) -> Callable[..., None]:
    """The same by a program, in `threads` equal shares at once: of several, each computation is of one thread."""
    nbytes = -(-max(compute.nbytes for compute in computations) // LINE) * LINE  # no line is shared
    share = len(computations) // threads
    source, weights, target, memory, epilogue = (Address(GIVEN + place) for place in range(5))
    rows = [
        compute.instruction(source, weights, target, memory._replace(offset=number // share * nbytes), epilogue)
        for number, compute in enumerate(computations)
    ]
    program = Program(one, [], rows, computations, threads)

    def compute(source: int, weights: int, target: int, epilogue: int = NONE) -> None:
        program.run([source, weights, target, workspace(threads * nbytes), epilogue])

    return compute


def _one_by_one(computations: Sequence[Computation], *given: int) -> None:
    for compute in computations:
        compute(*given)
