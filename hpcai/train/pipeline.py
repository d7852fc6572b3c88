"""Pipeline parallelism: training of a stage of a network by micro-batches, one forward and one backward in turn (1F1B).

A stage runs forward for as many micro-batches as there are stages after it, then backward and forward in turn: so it
keeps the activations of no more micro-batches than there are stages from it on (Narayanan et al., PipeDream, 2019,
section 3.2; with a flush at the end of each step, as in GPipe, Huang et al., 2019). Then the gradients of weights that
several stages have are added up.
"""

from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from mpi4py import MPI
from torch import Tensor, nn

from hpcai.comm.stage_links import StageLinks, Tensors
from hpcai.inputfile.split import micro_batches
from hpcai.models.module import Layers
from hpcai.train.communication import Communication
from hpcai.train.execution import Execution, Network
from hpcai.train.gradient_buckets import GradientBuckets
from hpcai.train.objective import Objective
from hpcai.train.state import TrainingState

Bounds = tuple[int, int]  # first sample of a micro-batch and that after its last one


def bounds_of(samples: int, chunks: int) -> list[Bounds]:
    """The micro-batches of a batch; the first ones have a sample more where it does not divide."""
    count = micro_batches(samples, chunks)
    size, larger = divmod(samples, count)
    return list(pairwise(number * size + min(number, larger) for number in range(count + 1)))


class Pipeline(Execution):
    """Executes a stage. All passes are collective over the stages of a replica.

    chunks: micro-batches of a full batch. comm: the stages, for passes outside the clock. outputs: shape of a sample's
    logits.
    """

    def __init__(
        self,
        module: Layers,
        communication: Communication,
        buckets: GradientBuckets | None,
        links: StageLinks,
        comm: MPI.Comm,
        chunks: int,
        outputs: Sequence[int],
    ) -> None:
        super().__init__(module, module, communication)
        self.links = links
        self._tied = [([*tied.layers], module.get_submodule(name)) for name, tied in module.tied.items()]
        self._comm, self._chunks, self._buckets = comm, chunks, buckets
        self.eval_module = self.network = StageEvaluation(module, links, chunks, outputs)

    def step(self, objective: Objective, state: TrainingState, x: Tensor, y: Tensor, number: int) -> Tensor:
        """Gradients of a batch, averaged over the replicas; the loss on the last stage, 0 on the others."""
        links, work = self.links, _Step(self, objective, state, x, y, number)
        batches = bounds_of(len(y), self._chunks)
        early = min(links.stages - 1 - links.stage, len(batches))
        for batch in batches[:early]:
            links.send(work.forward(batch, self._received(batch)))
        rest = batches[early:]
        inputs = self._received(rest[0]) if rest else ()
        for batch, following in zip(rest, [*rest[1:], None], strict=False):
            outputs = work.forward(batch, inputs)
            gradients = () if links.last else links.exchange_with_next(outputs, work.awaited)
            inputs = self._passed_back(work.backward(gradients), following)
        for _ in range(early):
            self._passed_back(work.backward(links.exchange_with_next((), work.awaited)), None)
        if self._buckets is not None:
            self._buckets.average()
        self.communication.end_backward()
        self._add_tied()
        return work.loss

    def _add_tied(self) -> None:
        """The gradients of tied weights, the same bits on all stages that have these.

        Those of the replicas are averaged before, since another order of sums would give replicas other bits.
        """
        for stages, module in self._tied:
            for parameter in module.parameters():
                assert parameter.grad is not None, "every parameter takes part in every step"
                self.links.add_up(parameter.grad, stages)

    def _received(self, batch: Bounds) -> Tensors:
        return () if self.links.first else self.links.receive(batch[1] - batch[0])

    def _passed_back(self, gradients: Tensors, following: Bounds | None) -> Tensors:
        """Send gradients to the stage before, and receive its outputs for the next micro-batch."""
        if self.links.first:
            return ()
        return self.links.exchange_with_previous(gradients, following[1] - following[0] if following else 0)

    def alone(
        self,
        network: Network,
        objective: Objective,
        x: Tensor,
        y: Tensor,
        number: int,
        scale: Tensor | None = None,
        backward: bool = True,
    ) -> Tensor:
        """A pass of each micro-batch through all stages, one after the other, by messages of whole objects.

        The loss, the same on all stages. The batch is divided by torch, so that an error of `bounds_of` shows.
        """
        total = torch.zeros((), device=x.device)
        count = micro_batches(len(y), self._chunks) if backward else 1
        for images, labels in zip(x.tensor_split(count), y.tensor_split(count), strict=True):
            inputs = self._taken(images)
            if self.links.last:
                loss = objective(lambda *_, given=inputs: network(*given), inputs[0], labels, number)
                loss = loss * (len(labels) / len(y))
                total += loss.detach()
                outputs: Tensors = (loss if scale is None else loss * scale,)
            else:
                outputs = tuple(network(*inputs))
                self._give(outputs, self.links.stage + 1)
            if backward:
                self._back(inputs, outputs)
        found: Tensor = self._comm.bcast(total.cpu(), self.links.stages - 1).to(x.device)
        return found

    def _taken(self, images: Tensor) -> Tensors:
        """The images, or what the stage before gives."""
        if self.links.first:
            return (images,)
        given = self._comm.recv(source=self.links.stage - 1)
        return self.links.differentiable(tuple(tensor.to(images.device) for tensor in given))

    def _give(self, tensors: Sequence[Tensor | None], stage: int) -> None:
        self._comm.send([tensor if tensor is None else tensor.detach().cpu() for tensor in tensors], stage)

    def _back(self, inputs: Tensors, outputs: Tensors) -> None:
        given = [None] if self.links.last else self._comm.recv(source=self.links.stage + 1)
        pairs = [
            (output, gradient if gradient is None else gradient.to(output.device))
            for output, gradient in zip(outputs, given, strict=True)
            if output.requires_grad
        ]
        torch.autograd.backward([output for output, _ in pairs], [gradient for _, gradient in pairs])
        if not self.links.first:
            self._give([tensor.grad for tensor in inputs], self.links.stage - 1)


class _Step:
    """The micro-batches of a step that are on their way through a stage."""

    def __init__(
        self, pipeline: Pipeline, objective: Objective, state: TrainingState, x: Tensor, y: Tensor, number: int
    ) -> None:
        self.loss = torch.zeros((), device=x.device)
        self._pipeline, self._objective, self._state = pipeline, objective, state
        self._x, self._y, self._number = x, y, number
        self._between: deque[tuple[Tensors, Tensors]] = deque()  # inputs and outputs, forward done, backward not

    @property
    def awaited(self) -> Tensors:
        """Outputs whose gradients come next."""
        return _trained(self._between[0][1])

    def forward(self, batch: Bounds, received: Tensors) -> Tensors:
        """What the stage sends for a micro-batch; the last stage keeps its loss."""
        begin, end = batch
        links, network = self._pipeline.links, self._pipeline.replica
        inputs = (self._x[begin:end],) if links.first else received
        if links.last:
            share = (end - begin) / len(self._y)
            labels = self._y[begin:end]
            loss = share * self._objective(lambda *_: network(*inputs), inputs[0], labels, self._number)
            self.loss += loss.detach()
            outputs: Tensors = (loss,)
        else:
            given: Any = network(*inputs)
            outputs = given
        self._between.append((inputs, outputs))
        return outputs

    def backward(self, gradients: Tensors) -> Tensors:
        """The gradients of what was received for the micro-batch that waits longest."""
        inputs, outputs = self._between.popleft()
        if self._pipeline.links.last:
            self._state.backward(outputs[0])
        else:
            torch.autograd.backward(_trained(outputs), gradients)
        self._pipeline.executed.end_backward()
        self._pipeline.links.micro_batches += 1
        return tuple(tensor.grad for tensor in inputs if tensor.grad is not None)


class StageEvaluation(nn.Module):
    """Evaluates a network by its stages: logits of images on the last one, zeros on the others."""

    def __init__(self, module: nn.Module, links: StageLinks, chunks: int, outputs: Sequence[int]) -> None:
        super().__init__()
        self.module = module
        self.links, self._chunks, self._outputs = links, chunks, outputs

    def forward(self, images: Tensor) -> Tensor:
        """Logits float[N, *outputs] of images float[N, C, H, W] or sequences [N, 1, 1, S]."""
        links, found = self.links, []
        for begin, end in bounds_of(len(images), self._chunks):
            inputs = (images[begin:end],) if links.first else links.receive(end - begin)
            outputs = self.module(*inputs)
            found.append(outputs)
            if not links.last:
                links.send(outputs)
                found.clear()
        return torch.cat(found) if found else torch.zeros(len(images), *self._outputs, device=images.device)


def _trained(tensors: Tensors) -> Tensors:
    return tuple(tensor for tensor in tensors if tensor.requires_grad)
