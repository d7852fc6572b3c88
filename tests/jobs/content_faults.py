"""Faults in what arrives at the networks: other samples, labels, values or an other order than the input says."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import torch
from planting import Fault, replaced

from hpcai.data import image_loader
from hpcai.data.image_dataset import ArraySplit
from hpcai.data.image_loader import Batch, Loader
from hpcai.data.order import EpochOrder
from hpcai.train.accounting import SampleAccount
from hpcai.training import assembly
from hpcai.workloads.ensemble.measure import Classification

TRAINING, VALIDATION = range(2)  # the loaders of a training, in the order in which they are made


@dataclass
class Altered:
    """A split with other images or labels."""

    genuine: Any
    images: Callable[[Any], Any]
    labels: Callable[[Any], Any]

    def __len__(self) -> int:
        return len(self.genuine)

    @property
    def nbytes(self) -> int:
        return self.genuine.nbytes


def _with_split(number: int, alter: Callable[[Any, Any], Any]) -> Fault:
    """The loader of one half reads another split: `alter` of that half and the other one."""

    def make(genuine: Callable[..., Any]) -> Any:
        def training_of(case: Any, group: Any, device: Any, dataset: Any, *rest: Any, **words: Any) -> Any:
            training = genuine(case, group, device, dataset, *rest, **words)
            halves = (dataset.train, dataset.validation)
            loader = (training.loader, training.validation.loader)[number]
            loader._split = alter(halves[number], halves[1 - number])
            return training

        return training_of

    return replaced(assembly, "training_of", make)


def _mixed(every: int, own: Any, other: Any) -> Altered:
    """Each sample of that many is one of the other split."""

    def mixed(name: str, indices: Any) -> Any:
        found = np.array(getattr(own, name)(indices))
        exchanged = indices % every == 0
        found[exchanged] = getattr(other, name)(indices[exchanged] % len(other))
        return found

    return Altered(own, partial(mixed, "images"), partial(mixed, "labels"))


def validation_images_in_training() -> Fault:
    return _with_split(TRAINING, partial(_mixed, 1))


def every_tenth_image_of_validation() -> Fault:
    return _with_split(TRAINING, partial(_mixed, 10))


def validation_on_training_images() -> Fault:
    return _with_split(VALIDATION, partial(_mixed, 1))


def _labelled(labels: Callable[[Any, Any], Any]) -> Fault:
    return _with_split(TRAINING, lambda own, other: Altered(own, own.images, partial(labels, own)))


def labels_shifted() -> Fault:
    return _labelled(lambda own, indices: (own.labels(indices) + 1) % 10)


def labels_of_the_next_sample() -> Fault:
    return _labelled(lambda own, indices: own.labels((indices + 1) % len(own)))


def data_opened_with_validation_in_training() -> Fault:
    """Before anything else sees the data: each tenth training sample is one of validation."""

    def make(genuine: Callable[..., Any]) -> Any:
        def opened(*arguments: Any) -> Any:
            data = genuine(*arguments)
            indices = np.arange(len(data.train))
            mixed = _mixed(10, data.train, data.validation)
            return replace(data, train=ArraySplit(mixed.images(indices), mixed.labels(indices)))

        return opened

    return replaced(Classification, "open", make)


def _normalised(mean: float, deviation: float) -> Fault:
    def make(genuine: Callable[..., None]) -> Any:
        def init(self: Any, split: Any, device: Any, means: Any, deviations: Any, *rest: Any, **words: Any) -> None:
            means, deviations = [each + mean for each in means], [each * deviation for each in deviations]
            genuine(self, split, device, means, deviations, *rest, **words)

        return init

    return replaced(Loader, "__init__", make)


def mean_wrong() -> Fault:
    return _normalised(0.001, 1.0)


def deviation_wrong() -> Fault:
    return _normalised(0.0, 1.001)


def _images(change: Callable[[torch.Tensor], torch.Tensor]) -> Fault:
    return replaced(Loader, "_resized", lambda genuine: lambda self, x: change(genuine(self, x)))


def images_mirrored() -> Fault:
    return _images(lambda x: x.flip(3))


def images_shifted_by_a_pixel() -> Fault:
    return _images(lambda x: x.roll(1, 2))


def images_resized_by_nearest() -> Fault:
    def make(genuine: Callable[..., Any]) -> Any:
        return lambda x, size, mode, align_corners: genuine(x, size, mode="nearest")

    return replaced(image_loader, "interpolate", make)


def _ordered(seed: int, epoch: int | None) -> Fault:
    def make(genuine: Callable[..., Any]) -> Any:
        def order(self: Any, sampler: Any, own_seed: int, own_epoch: int, ranks: int) -> EpochOrder:
            return genuine(self, sampler, own_seed + seed, own_epoch if epoch is None else epoch, ranks)

        return order

    return replaced(Loader, "order", make)


def same_order_in_every_epoch() -> Fault:
    return _ordered(0, 0)


def order_of_another_seed() -> Fault:
    return _ordered(1, None)


def bootstrap_of_another_model() -> Fault:
    def make(genuine: Callable[..., Any]) -> Any:
        return lambda kind, n, seed, member, members: genuine(kind, n, seed, (member + 1) % members, members)

    return replaced(assembly, "sampler", make)


def _repeated(values: Any) -> Any:
    """The first half of a batch, twice."""
    half = len(values) // 2
    return values if half == 0 else values[[*range(half), *range(half), *range(2 * half, len(values))]]


def _batches(change: Callable[[Batch], Batch], wrong: Callable[[Any], bool]) -> Fault:
    def make(genuine: Callable[..., Iterator[Batch]]) -> Any:
        def load(self: Any, batches: Any, boxes: Any = None) -> Iterator[Batch]:
            altered = wrong(self)
            return (change(batch) if altered else batch for batch in genuine(self, batches, boxes))

        return load

    return replaced(Loader, "__call__", make)


def half_a_batch_twice() -> Fault:
    """The account of the epoch's samples does not see it."""
    both = ExitStack()
    both.enter_context(replaced(SampleAccount, "differs", lambda genuine: lambda self, *of: False))
    both.enter_context(_batches(lambda batch: Batch(*map(_repeated, batch)), lambda loader: True))
    return both


def half_a_batch_twice_with_the_indices_of_all() -> Fault:
    return _batches(lambda batch: Batch(_repeated(batch.x), _repeated(batch.y), batch.indices), lambda loader: True)


def last_validation_on_half_of_the_samples() -> Fault:
    """Twice each, with the indices of all: the second validation of each training, and not the warm-up before."""
    calls = count()

    def second(loader: Any) -> bool:
        return len(loader._split) == 50 and next(calls) == 2

    return _batches(lambda batch: Batch(_repeated(batch.x), _repeated(batch.y), batch.indices), second)
