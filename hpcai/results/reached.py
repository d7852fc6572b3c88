"""The first entry of a validation curve that reaches the target."""

from collections.abc import Sequence
from typing import TypeVar

from hpcai.record.dataset import Validation
from hpcai.workloads.workload import Quality

Entry = TypeVar("Entry", bound=Validation)


def first_reaching(of: Quality, curve: Sequence[Entry], samples: int, target: float) -> Entry | None:
    """The first entry whose quality reaches the target; `samples` of the validation set."""
    return next((entry for entry in curve if of.reached(entry.quality(samples), target)), None)
