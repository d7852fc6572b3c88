"""How a network is executed: layer by layer, compiled by torch.compile, or played back as a CUDA graph.

Compiling is done before the clock starts, for every shape that the timed region has.
"""

import logging
import os
from collections.abc import Callable
from typing import Any, cast

import torch
from mpi4py import MPI
from torch import Tensor, nn

from hpcai.clock import now, synchronise
from hpcai.comm.grid import Group
from hpcai.models.operation_counter import Executed
from hpcai.record.training import ExecutedBy
from hpcai.record.training import Execution as ExecutionRecord
from hpcai.train.communication import Communication
from hpcai.train.data_parallel import replicate

# float[N, C, H, W] to logits float[N, classes]; a detector, with boxes and a draw beside, to its losses
Network = Callable[..., Tensor]
Compiler = Callable[[torch.fx.GraphModule, list[Tensor]], Any]
TRIALS = 3  # timings of each way that is compared, after one that does not count; the fastest counts


class Execution:
    """Executes the network layer by layer.

    `replica` is called to train, `judged` to judge: a module, which is switched to evaluation mode for that time.
    `layer_by_layer` trains as well, whatever becomes of `replica`. `executed` counts what training executes.
    """

    name: ExecutedBy = "layer by layer"

    def __init__(self, module: nn.Module, replica: nn.Module, communication: Communication) -> None:
        self.replica: Network = self._watched
        self.layer_by_layer: Network = replica
        self.judged = module
        self.communication = communication
        self.executed = Executed(module)
        self.compile_seconds = 0.0  # of the warm-up
        self.graphs = 0  # compiled or captured so far
        self.settled_graphs = 0  # of them before the clock started
        self.trials: dict[ExecutedBy, float] = {}  # seconds of the warm-up's steps, where several ways are compared

    def settle(self, steps: Callable[[], None], judge: Callable[[], None]) -> int:
        """Make ready for the shapes that occur in `steps` and `judge`, which train and judge on examples of them.

        Returns how often it called `steps`.
        """
        steps()
        judge()
        return 1

    def end_backward(self) -> None:
        """To be called when the backward pass of a step has returned, while its gradients are there."""
        self.communication.end_backward()
        self.executed.end_backward()

    def measured(self, comm: MPI.Comm) -> ExecutionRecord:
        """What was observed, the same on all ranks of `comm`: the most of any rank. Collective."""
        late = self.graphs - self.settled_graphs
        return ExecutionRecord(
            by=self.name,
            graphs=comm.allreduce(self.settled_graphs, MPI.MAX),
            late_graphs=comm.allreduce(late, MPI.MAX),
            compile_seconds=comm.allreduce(self.compile_seconds, MPI.MAX),
            trials={str(name): seconds for name, seconds in self.trials.items()},
            buckets=comm.allreduce(self.communication.buckets, MPI.MAX),
        )

    def _watched(self, images: Tensor, *others: Any) -> Tensor:
        """Layer by layer, so that an unforeseen shape can be learnt when it comes."""
        if self.executed.knows(images):
            output = self.layer_by_layer(images, *others)
        else:
            output = self.executed.learn(self.layer_by_layer, images, *others)
        self.executed.add(images)
        return output

    def _use(self, network: Network) -> None:
        """From now on train by a network whose layers cannot be watched."""

        def counted(images: Tensor, *others: Any) -> Tensor:
            output = network(images, *others)
            self.executed.add(images)
            return output

        self.replica = counted


class Compiled(Execution):
    """Executes what torch.compile makes of the network, for each shape by itself.

    The replica of a group is compiled as a whole: torch then divides it where its buckets end, so that they are still
    sent during the backward pass.
    """

    name: ExecutedBy = "torch.compile"

    def __init__(
        self, module: nn.Module, replica: nn.Module, communication: Communication, compiler: Compiler | None = None
    ) -> None:
        super().__init__(module, replica, communication)
        torch._logging.set_logs(dynamo=logging.ERROR)  # it warns of what it leaves to Python
        torch.compiler.reset()  # of what an earlier test compiled: torch compiles a function a limited number of times
        self._compiler = compiler or _inductor()
        self._replica = self._compiled(replica)
        self.judged = self._compiled(module)

    def settle(self, steps: Callable[[], None], judge: Callable[[], None]) -> int:
        """Compile for the shapes that occur in `steps` and `judge`."""
        steps()  # layer by layer: what they execute is learnt
        begin = now()
        self._use(self._replica)
        steps()
        judge()
        self.compile_seconds, self.settled_graphs = now() - begin, self.graphs
        return 2

    def _compiled(self, network: nn.Module) -> nn.Module:
        compiled: Any = torch.compile(network, dynamic=False, backend=self._compile)
        return cast(nn.Module, compiled)

    def _compile(self, graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Any:
        self.graphs += 1
        return self._compiler(graph, inputs)


def _inductor() -> Compiler:
    from torch._inductor import config
    from torch._inductor.compile_fx import compile_fx

    if "TORCHINDUCTOR_COMPILE_THREADS" not in os.environ:
        config.compile_threads = 1  # more would be processes, as many for each rank as the node has processors
    compiler: Compiler = compile_fx
    return compiler


class Graphed(Execution):
    """Executes full batches as CUDA graphs, one of the forward and one of the backward pass, if that is faster.

    A graph is launched as a whole, which pays where kernels are so short that launching them takes longer. Other
    batches, and what is judged, are executed layer by layer. `slowest` tells the largest of the ranks' numbers: so all
    decide alike.
    """

    name: ExecutedBy = "CUDA graphs"

    def __init__(
        self,
        module: nn.Module,
        communication: Communication,
        device: torch.device,
        slowest: Callable[[float], float],
    ) -> None:
        super().__init__(module, module, communication)
        self._device = device
        self._slowest = slowest

    def settle(self, steps: Callable[[], None], judge: Callable[[], None]) -> int:
        """Capture the shape of the first of `steps`, and keep what executes the steps faster."""
        first: list[Tensor] = []
        self.replica = lambda images: self._watched(_kept(first, images))
        steps()
        judge()
        begin = now()
        captured = _captured(self.judged, first[0])
        synchronise(self._device)
        self.compile_seconds = now() - begin
        self.graphs = self.settled_graphs = 2  # a forward and a backward pass
        ways = {Execution.name: self.layer_by_layer, Graphed.name: captured}
        for _ in range(1 + TRIALS):
            for name, network in ways.items():
                self._use(network)
                self._try(name, steps)
        self.name = min(self.trials, key=lambda name: self.trials[name])
        self._use(ways[self.name])
        return 1 + len(ways) * (1 + TRIALS)

    def _try(self, name: ExecutedBy, steps: Callable[[], None]) -> None:
        synchronise(self._device)
        begin = now()
        steps()
        synchronise(self._device)
        seconds = self._slowest(now() - begin)
        self.trials[name] = min(seconds, self.trials.get(name, seconds))


def executed_as(
    how: str, module: nn.Module, group: Group, device: torch.device, communication: Communication
) -> Execution:
    """How a group executes and trains a module, by the KEY COMPILE; the same on all active ranks."""
    replica = replicate(module, group, device, communication)
    match how:
        case "torch":
            return Compiled(module, replica, communication)
        case "graphs":
            return Graphed(module, communication, device, lambda seconds: group.active.allreduce(seconds, MPI.MAX))
    return Execution(module, replica, communication)


def _kept(first: list[Tensor], images: Tensor) -> Tensor:
    """The images, of which a copy is kept if they are the first."""
    if not first:
        first.append(images.clone())
    return images


class _Whole(nn.Module):
    """The network as a part of a module, whose `forward` can be replaced while the network's own stays."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.network(images)
        return logits


def _captured(network: nn.Module, example: Tensor) -> Network:
    """The network in training mode: batches of the example's shape as CUDA graphs, others layer by layer."""
    whole: Any = torch.cuda.make_graphed_callables(_Whole(network), (example,))

    def either(images: Tensor) -> Tensor:
        logits: Tensor = whole(images) if images.shape == example.shape else network(images)
        return logits

    return either
