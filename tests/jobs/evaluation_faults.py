"""Faults in the evaluation of models, in the products that they consist of, and in the differences of models."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any
from unittest.mock import patch

import torch
from planting import RANK, WRONG_RANK, Fault, replaced
from torch.nn import functional

from hpcai.data import image_loader
from hpcai.train import classifier_ensemble, validation
from hpcai.train.validation import Validation
from hpcai.training import assembly

# --- the validation


def _asked(where: Any, change: Callable[[list[Any]], list[Any]]) -> Fault:
    return replaced(where, "validation_indices", lambda genuine: lambda shard: iter(change(list(genuine(shard)))))


def _first_twice(batches: list[Any]) -> list[Any]:
    first = batches[0].copy()
    first[1] = first[0]
    return [first, *batches[1:]]


def sample_evaluated_twice() -> Fault:
    return _asked(validation, _first_twice)


def batch_not_asked_for() -> Fault:
    return _asked(validation, lambda batches: batches[1:])


def sample_evaluated_twice_by_the_ensemble() -> Fault:
    return _asked(classifier_ensemble, _first_twice)


def loaded(owner: Any, name: str, change: Callable[[Iterator[Any]], Iterator[Any]], where: Any = image_loader) -> Fault:
    """While `owner.name` runs, the loading thread of one rank delivers its batches changed by `change`."""

    def ahead(genuine: Callable[..., Any]) -> Any:
        return lambda items, depth: genuine(change(items) if RANK == WRONG_RANK else items, depth)

    def make(genuine: Callable[..., Any]) -> Any:
        def run(*arguments: Any) -> Any:
            with replaced(where, "Prefetcher", ahead):
                return genuine(*arguments)

        return run

    return replaced(owner, name, make)


def without_first(batches: Iterator[Any]) -> Iterator[Any]:
    return islice(batches, 1, None)


def second_replaced_by_first(batches: Iterator[Any]) -> Iterator[Any]:
    first = next(batches)
    next(batches)
    yield from (first, first)
    yield from batches


def batch_lost() -> Fault:
    return loaded(Validation, "run", without_first)


def batch_delivered_twice() -> Fault:
    return loaded(Validation, "run", second_replaced_by_first)


def batch_lost_by_the_ensemble() -> Fault:
    return loaded(classifier_ensemble, "_evaluated", without_first)


def batch_delivered_twice_to_the_ensemble() -> Fault:
    return loaded(classifier_ensemble, "_evaluated", second_replaced_by_first)


# --- the provider's products


def _product(spoil: Callable[[torch.Tensor], torch.Tensor]) -> Fault:
    return replaced(functional, "conv2d", lambda genuine: lambda *arguments: spoil(genuine(*arguments)))


def _first_element(like: torch.Tensor) -> torch.Tensor:
    only = torch.zeros_like(like)
    only[(0,) * like.ndim] = 1
    return only


def element_of_product_wrong() -> Fault:
    return _product(lambda y: y + 1e-4 * _first_element(y))


def product_wrong() -> Fault:
    return _product(lambda y: 1.01 * y)


def product_not_a_number() -> Fault:
    return _product(lambda y: y + torch.nan * _first_element(y))


class FirstGradientLost(torch.autograd.Function):
    """The identity, whose gradient lacks one element."""

    @staticmethod
    def forward(context: Any, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.view_as(tensor)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * (1 - _first_element(gradient))


def element_of_weight_gradient_lost() -> Fault:
    def make(genuine: Callable[..., torch.Tensor]) -> Any:
        return lambda x, w, *rest: genuine(x, FirstGradientLost.apply(w), *rest)

    return replaced(functional, "conv2d", make)


# --- the ensemble


class SameModel:
    """Replaces the module `assembly`: both models get the seed and the samples of the first."""

    def __enter__(self) -> None:
        seeds, samplers = assembly.seed_of, assembly.sampler
        self.patches = patch.multiple(
            assembly,
            seed_of=lambda seed, purpose, member: seeds(seed, purpose, 0),
            sampler=lambda kind, samples, seed, member, models: samplers(kind, samples, seed, 0, models),
        )
        self.patches.start()

    def __exit__(self, *_: object) -> None:
        self.patches.stop()


def models_identical() -> Fault:
    return SameModel()
