"""As many multiply-adds as a processor can do: sums that never leave their registers, the ceiling of every product."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """`sums` numbers, each multiplied and added to `steps` times."""

    sums: int
    steps: int


def operations(shape: Shape) -> int:
    """FLOP; 1 multiply-add = 2."""
    return 2 * shape.sums * shape.steps
