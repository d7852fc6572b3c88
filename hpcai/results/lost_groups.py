"""Groups and ranks that were lost: what a result says of them."""

import re
from collections.abc import Sequence
from typing import Any


def lost_groups(entry: Any) -> tuple[int, ...]:
    """The groups that a test, or one that was broken off, went on without."""
    found: tuple[int, ...] = getattr(entry.raw, "lost_groups", ())
    return found


def lost_ranks(numbers: Sequence[int]) -> str:
    """Why a run was broken off that cannot go on without these ranks."""
    more = f" and {len(numbers) - 1} more" if len(numbers) > 1 else ""
    return f"loss of rank {numbers[0]}{more}"


def tells_of_lost_ranks(cause: str, ranks: int) -> bool:
    """Whether a cause is one that `lost_ranks` gives in a job of so many ranks; rank 0 cannot be lost."""
    found = re.fullmatch(r"loss of rank ([1-9][0-9]{0,9})(?: and ([1-9][0-9]{0,9}) more)?", cause)
    return found is not None and int(found[1]) + int(found[2] or 0) < ranks
