"""Execution of a network compiled by torch.compile, or as CUDA graphs.

Compilation happens before the clock starts, for every shape of the timed region.
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
from hpcai.kernels import code_cache
from hpcai.record.training import ExecutedBy
from hpcai.train.communication import Communication
from hpcai.train.data_parallel import replicate
from hpcai.train.execution import Execution, Network

Compiler = Callable[[torch.fx.GraphModule, list[Tensor]], Any]
TRIALS = 3  # timings of each execution compared, after one discarded; the fastest counts


class Compiled(Execution):
    """Executes the network compiled by torch.compile, once for each shape.

    The replica of a group is compiled as a whole: torch splits it at the ends of its buckets, so that they are still
    sent during the backward pass.
    """

    name: ExecutedBy = "torch.compile"

    def __init__(
        self, module: nn.Module, replica: nn.Module, communication: Communication, compiler: Compiler | None = None
    ) -> None:
        super().__init__(module, replica, communication)
        torch._logging.set_logs(dynamo=logging.ERROR)  # silences warnings about graph breaks
        # forgets what earlier tests compiled: torch limits the number of compilations of a function
        torch.compiler.reset()
        self._compiler = compiler or _inductor()
        self._replica = self._compiled(replica)
        self.eval_module = self._compiled(module)

    def settle(self, train: Callable[[], None], evaluate: Callable[[], None]) -> int:
        """Compile for the shapes of `train` and `evaluate`."""
        train()  # layer by layer: counts the operations of each shape
        begin = now()
        self._use(self._replica)
        train()
        evaluate()
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
        config.compile_threads = 1  # otherwise each rank starts as many processes as the node has processors
    # By default it loads code from a folder in /tmp with a known name, which others can make.
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(code_cache.local_folder("inductor")))
    compiler: Compiler = compile_fx
    return compiler


class Graphed(Execution):
    """Executes full batches as CUDA graphs, one of the forward and one of the backward pass, if that is faster.

    A graph is launched as a whole, which pays off where kernels are shorter than their launches. Other batches and
    evaluation are executed layer by layer. `slowest` returns the largest value of the ranks, so that all decide alike.
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

    def settle(self, train: Callable[[], None], evaluate: Callable[[], None]) -> int:
        """Capture the shape of the first batch of `train`, and keep the faster execution."""
        first: list[Tensor] = []
        self.replica = lambda images: self._watched(_kept(first, images))
        train()
        evaluate()
        begin = now()
        captured = _captured(self.eval_module, first[0])
        synchronise(self._device)
        self.compile_seconds = now() - begin
        self.graphs = self.settled_graphs = 2  # a forward and a backward pass
        executions = {Execution.name: self.layer_by_layer, Graphed.name: captured}
        for _ in range(1 + TRIALS):
            for name, network in executions.items():
                self._use(network)
                self._try(name, train)
        self.name = min(self.trials, key=lambda name: self.trials[name])
        self._use(executions[self.name])
        return 1 + len(executions) * (1 + TRIALS)

    def _try(self, name: ExecutedBy, train: Callable[[], None]) -> None:
        synchronise(self._device)
        begin = now()
        train()
        synchronise(self._device)
        seconds = self._slowest(now() - begin)
        self.trials[name] = min(seconds, self.trials.get(name, seconds))


def build_execution(
    how: str, module: nn.Module, group: Group, device: torch.device, communication: Communication
) -> Execution:
    """The execution of a group's training, by the KEY COMPILE; the same on all active ranks."""
    replica = replicate(module, group, device, communication, compiled=how == "torch")
    match how:
        case "torch":
            return Compiled(module, replica, communication)
        case "graphs":
            return Graphed(module, communication, device, lambda seconds: group.active.allreduce(seconds, MPI.MAX))
    return Execution(module, replica, communication)


def _kept(first: list[Tensor], images: Tensor) -> Tensor:
    """The images; a copy is kept if they are the first."""
    if not first:
        first.append(images.clone())
    return images


class _NetworkModule(nn.Module):
    """Wrapper module whose `forward` can be replaced by a CUDA graph while the network's own remains."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.network(images)
        return logits


def _captured(network: nn.Module, example: Tensor) -> Network:
    """The network in training mode: batches of the example's shape as CUDA graphs, others layer by layer."""
    whole: Any = torch.cuda.make_graphed_callables(_NetworkModule(network), (example,))

    def either(images: Tensor) -> Tensor:
        logits: Tensor = whole(images) if images.shape == example.shape else network(images)
        return logits

    return either
