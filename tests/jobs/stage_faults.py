"""Faults of pipelines, planted in the real program."""

from collections.abc import Callable
from typing import Any

import torch
from planting import RANK, WRONG_RANK, Fault, replaced

from hpcai.comm.grid import Group
from hpcai.comm.stage_links import StageLinks
from hpcai.train import pipeline
from hpcai.train.gradient_buckets import GradientBuckets
from hpcai.train.layerwise import Shards
from hpcai.train.pipeline import Pipeline, _Step


def wrong_micro_batch_in_a_stage() -> Fault:
    """A stage computes with the outputs for the micro-batch before, if that had as many samples."""

    def make(genuine: Callable[..., Any]) -> Any:
        def exchange(self: Any, gradients: Any, samples: int) -> Any:
            given = genuine(self, gradients, samples)
            before = getattr(self, "before", given)
            if not samples or not torch.is_grad_enabled():
                return given
            self.before = tuple(tensor.detach().clone() for tensor in given)
            same = [tensor.shape for tensor in before] == [tensor.shape for tensor in given]
            return self.differentiable(before) if same and before is not given else given

        return exchange

    return replaced(StageLinks, "exchange_with_previous", make)


def gradients_of_a_micro_batch_lost() -> Fault:
    """The first stage gets zeros for the first micro-batch of each step."""

    def make(genuine: Callable[..., Any]) -> Any:
        def backward(self: Any, gradients: Any) -> Any:
            first, self.begun = not hasattr(self, "begun"), True
            return genuine(self, tuple(each * 0 for each in gradients) if first else gradients)

        return backward

    return replaced(_Step, "backward", make)


def micro_batch_trained_twice() -> Fault:
    """The second micro-batch of a step is left out, for the first one."""

    def make(genuine: Callable[..., Any]) -> Any:
        def bounds(samples: int, chunks: int) -> Any:
            found = genuine(samples, chunks)
            return [found[0], *found[:1], *found[2:]] if torch.is_grad_enabled() else found

        return bounds

    return replaced(pipeline, "bounds_of", make)


def one_micro_batch() -> Fault:
    """Each step is one micro-batch, whatever CHUNKS says."""
    return replaced(pipeline, "micro_batches", lambda genuine: lambda samples, chunks: 1)


def outputs_of_other_samples() -> Fault:
    """Evaluation gives the outputs of a batch in the reverse order."""
    return replaced(
        pipeline.StageEvaluation, "forward", lambda genuine: lambda self, images: genuine(self, images).flip(0)
    )


def earlier_micro_batch_evaluated() -> Fault:
    """In evaluation a stage computes with the micro-batch before, if that had as many samples."""

    def make(genuine: Callable[..., Any]) -> Any:
        def exchange(self: Any, gradients: Any, samples: int) -> Any:
            given = genuine(self, gradients, samples)
            if not samples or torch.is_grad_enabled():
                return given
            before, self.evaluated = getattr(self, "evaluated", given), tuple(each.clone() for each in given)
            same = [tensor.shape for tensor in before] == [tensor.shape for tensor in given]
            return before if same else given

        return exchange

    return replaced(StageLinks, "exchange_with_previous", make)


def each_stage_credited() -> Fault:
    """Samples count on every stage of a model, not on the last."""
    return replaced(Group, "counts", lambda genuine: property(lambda self: True))


def replica_not_averaged() -> Fault:
    """A rank keeps its own gradients."""

    def make(genuine: Callable[..., Any]) -> Any:
        def average(self: Any) -> None:
            parameters = [parameter for bucket in self._buckets for parameter in bucket.parameters()]
            own = [parameter.grad.clone() for parameter in parameters]
            genuine(self)
            for parameter, gradient in zip(parameters, own, strict=True):
                parameter.grad = gradient if RANK == WRONG_RANK else parameter.grad

        return average

    return replaced(GradientBuckets, "average", make)


def tied_gradients_not_added() -> Fault:
    """Each stage updates its copy of the embedding by its own gradient."""
    return replaced(Pipeline, "_add_tied", lambda genuine: lambda self: None)


def gradient_of_one_copy() -> Fault:
    """All copies of the embedding are updated by the gradient of the first one."""

    def make(genuine: Callable[..., Any]) -> Any:
        def add_up(self: Any, numbers: torch.Tensor, stages: Any) -> None:
            genuine(self, numbers.zero_() if self.last else numbers, stages)

        return add_up

    return replaced(StageLinks, "add_up", make)


def norm_of_both_copies() -> Fault:
    """Gradients are clipped by a norm in which both copies of the embedding count."""
    return replaced(
        Shards, "sum", lambda genuine: lambda self, *given: genuine(self._replace(uncounted=()), *given)
    )
