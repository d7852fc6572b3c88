"""The gradients of a replayed step of weights of which several stages of a pipeline have a copy, in float64."""

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

from mpi4py import MPI
from torch import nn

from hpcai.networks.stages import Tied
from hpcai.train.step_tensors import Tensor


def layer_of(parameter: str) -> str:
    """The layer of a parameter, by its name."""
    return parameter.rpartition(".")[0]


def tied_of(module: nn.Module) -> Mapping[str, Tied]:
    """The tied weights of a module by layer; none of a module that is no part of a network."""
    found: Mapping[str, Tied] = getattr(module, "tied", {})
    return found


def tied_first(module: nn.Module) -> list[tuple[int, str, nn.Parameter]]:
    """Number, name and value of each parameter: tied ones first, on all stages in one order, so that none waits."""
    order = {name: place for place, name in enumerate(tied_of(module))}
    named = [(number, name, value) for number, (name, value) in enumerate(module.named_parameters())]
    return sorted(named, key=lambda each: order.get(layer_of(each[1]), len(order)))


def counted_here(module: nn.Module, parameter: str) -> bool:
    """Whether a parameter counts on this rank, of those that several parts of a model have."""
    layer, uncounted = layer_of(parameter), getattr(module, "uncounted", ())
    copied = layer in tied_of(module) and tied_of(module)[layer].weights != layer
    return not (copied or layer in uncounted)


def of_all_copies(own: Tensor, tied: Tied | None, stages: MPI.Comm) -> Tensor:
    """A tensor with the gradients of all its copies, whose errors add up. Collective over the stages with a copy."""
    if tied is None:
        return own
    carried = (own.carried.added, own.carried.left) if own.carried else ()
    summands = own.local_gradient, own.mean, own.spread**2, own.size, own.sent_error, own.overflow, *carried
    local_gradient, mean, square, size, sent_error, overflow, *kept = _sums(summands, tied, stages)
    return replace(
        own,
        local_gradient=local_gradient,
        mean=mean,
        spread=square**0.5,
        size=size,
        sent_error=sent_error,
        overflow=overflow > 0,
        carried=own.carried and replace(own.carried, **dict(zip(("added", "left"), kept, strict=True))),
    )


def _sums(summands: tuple[Any, ...], tied: Tied, stages: MPI.Comm) -> list[Any]:
    """The sums of numbers over the stages with a copy."""
    requests = [stages.isend(summands, stage) for stage in tied.layers if stage != stages.rank]
    every = [summands if stage == stages.rank else stages.recv(source=stage) for stage in tied.layers]
    MPI.Request.waitall(requests)
    return [reduce(add, each) for each in zip(*every, strict=True)]
