"""DistributedDataParallel without torch's compiler, which it loads otherwise: seconds of each rank, and 800 modules."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

NAME = "_dynamo"  # torch's compiler, within torch
AVERAGED_BY = "ddp_optimizer"  # the compiler's default: DistributedDataParallel averages gradients, the compiler none


class Replica(DistributedDataParallel):
    """A replica that is never in a compiled program, so that no compiler has to know which one is running."""

    def _run_ddp_forward(self, *inputs: Any, **options: Any) -> Any:
        return self.module(*inputs, **options)


def wrapped(module: nn.Module, compiled: bool, **options: Any) -> DistributedDataParallel:
    """The module in a replica; one that will be `compiled` needs the compiler. Collective.

    A later torch may ask the compiler for more than is known here: then it is loaded.
    """
    if compiled:
        return DistributedDataParallel(module, **options)
    try:
        with _answered():
            return Replica(module, **options)
    except AttributeError:
        return Replica(module, **options)


@contextmanager
def _answered() -> Iterator[None]:
    """In the place of a compiler that is not loaded, the answer to the one question of DistributedDataParallel."""
    if f"torch.{NAME}" in sys.modules:
        yield
        return
    vars(torch)[NAME] = SimpleNamespace(utils=SimpleNamespace(get_optimize_ddp_mode=lambda: AVERAGED_BY))
    try:
        yield
    finally:
        del vars(torch)[NAME]
