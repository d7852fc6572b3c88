"""Gradient averaging over a group: bucketed all-reduce overlapped with the backward pass, and what it costs."""

from functools import partial

import torch
from torch import nn
from torch.distributed import GradBucket
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from hpcai.comm.channel_exchange import PackedExchange
from hpcai.comm.grid import Group
from hpcai.comm.group_links import GroupLinks, Path, links_of
from hpcai.comm.interval_timer import interval_timer
from hpcai.comm.links import AnyLink, TorchLink
from hpcai.comm.stage_links import StageLinks
from hpcai.gradients.layout import LinkName
from hpcai.gradients.reductions import REDUCTIONS
from hpcai.gradients.wires import WIRES
from hpcai.gradients.wires.wire import Wire
from hpcai.inputfile import Case
from hpcai.train.all_reduce_paths import paths_of
from hpcai.train.channel_exchange import exchange_of
from hpcai.train.error_feedback import Bucket, ErrorFeedback
from hpcai.train.gradient_queue import GradientQueue, gradient_queue
from hpcai.watch import activity

CHANNELS, EXCHANGE = "channels", "exchange"  # bytes and seconds of exchanged channels
ACTIVATIONS, STAGE_WAIT = "activations", "stage_wait"  # bytes and seconds of transfers between stages
MICRO_BATCHES = "micro_batches"  # trained by a stage


class Communication:
    """Averages a model's gradients over its replicas, and times it.

    No communication with one rank. A plain wire with the flat all-reduce is summed by one call of the backend; what has
    several phases is done by a queue beside the backward pass, bucket after bucket. `feedback`: the rounding errors
    that are added to the next step's gradients, of a wire that carries them.
    """

    def __init__(
        self,
        ranks: int,
        device: torch.device,
        wire: Wire,
        links: GroupLinks | None,
        exchange: PackedExchange | None = None,
        stages: StageLinks | None = None,
    ) -> None:
        """`links`: of the replicas; None with one. `exchange`: of the channels of a sharded model.

        `stages`: of a pipeline.
        """
        self.exchange, self.stages = exchange, stages
        self.buckets = 0  # buckets of the last step
        self.wire = wire
        self.feedback: ErrorFeedback | None = None
        self.path: Path | None = None
        self.group_links = links
        self._ranks, self._device = ranks, device
        self._exposed = interval_timer(device)
        self._queue: GradientQueue | None = None  # none where one call of the backend does all

    def use(self, path: Path) -> None:
        """Sum by this path from now on. Collective over the group."""
        assert self.group_links is not None, "one rank has nothing to sum"
        self.path, self._reduction = path, REDUCTIONS[path.reduction]()
        self._links: dict[LinkName, AnyLink] = self.group_links.by(path.by, self._reduction.links)
        self._queue = None
        if not (path.reduction == "flat" and path.by != "mpi" and self.wire.plain):
            self._queue = gradient_queue(self._device, self.group_links.on_host)

    @property
    def exposed_seconds(self) -> float:
        """Seconds in which the device only communicated or waited for slower ranks, since construction.

        From the moment the last bucket of a step is ready to the end of the backward pass, and in all exchanges of
        channels and transfers between stages. Per rank; waits for a GPU.
        """
        others = (self.exchange, self.stages)
        return self._exposed.seconds + sum(other.timer.seconds for other in others if other is not None)

    def measured(self) -> dict[str, float]:
        """Seconds of packing and bytes sent by link since the group was made; of channels and between stages as well.

        Per rank; waits for a GPU.
        """
        links, exchange, stages = self.group_links, self.exchange, self.stages
        channels = {CHANNELS: float(exchange.sent), EXCHANGE: exchange.timer.seconds} if exchange else {}
        staged = {ACTIVATIONS: float(stages.sent), STAGE_WAIT: stages.timer.seconds} if stages else {}
        staged |= {MICRO_BATCHES: float(stages.micro_batches)} if stages else {}
        sent = {str(name): nbytes for name, nbytes in links.sent().items()} if links else {}
        return {"packing": links.packing.seconds if links else 0.0, **sent, **channels, **staged}

    @property
    def link_names(self) -> tuple[LinkName, ...]:
        """The links of the path."""
        return self._reduction.links

    def attach(self, replica: DistributedDataParallel) -> None:
        """Average the gradients of this replica from now on."""
        self.carry(replica.module)
        replica.register_comm_hook(self, Communication.average)

    def carry(self, module: nn.Module) -> None:
        """Keep the rounding errors of this module's gradients, if the wire carries them."""
        if self.wire.carries:
            self.feedback = ErrorFeedback(module, self._ranks)

    def average(self, bucket: GradBucket) -> Future[torch.Tensor]:
        """Start to average a full bucket while the gradients of earlier layers are still computed."""
        activity.pass_part()  # a rank that has not come so far is the one that the others wait for
        self._exposed.begin()
        return self.start(bucket)

    def begin_exposed(self) -> None:
        """From now on the device only communicates, until `end_backward`."""
        self._exposed.begin()

    def start(self, bucket: Bucket) -> Future[torch.Tensor]:
        """Start to average a bucket."""
        self.buckets = max(self.buckets * (bucket.index() > 0), bucket.index() + 1)
        gradients = bucket.buffer()
        if self._queue is None:
            return self._start(gradients, self._ranks)
        carried = self.feedback.of(bucket, self._links_device) if self.feedback else torch.zeros(0)
        return self._queue.submit(gradients, partial(self._summed, divisor=self._ranks, carried=carried))

    def sum(self, vector: torch.Tensor) -> torch.Tensor:
        """The sum of a vector over the ranks by the path that gradients take; may overwrite it. Collective."""
        return self.sum_and_left(vector)[0]

    def sum_and_left(self, vector: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The sum, and the rounding errors that this rank would add to its next vector; none was left before."""
        if self._queue is None:
            total = self._start(vector, 1).wait()
            self._whole_group.settle()
            return total, torch.zeros(0)
        carried = torch.zeros((len(vector) + self._ranks) * self.wire.carries, device=self._links_device)
        total = self._queue.submit(vector, partial(self._summed, divisor=1, carried=carried)).wait()
        self._queue.check()
        return total, carried[: len(vector)]

    def end_backward(self) -> None:
        """Must be called when a backward pass has returned."""
        self._exposed.end()
        if self._queue is not None:
            self._queue.check()
        elif self.group_links is not None:
            self._whole_group.settle()

    @property
    def _links_device(self) -> torch.device:
        assert self.group_links is not None
        return self.group_links.device

    @property
    def _whole_group(self) -> TorchLink:
        link = self._links["group"]
        assert isinstance(link, TorchLink)
        return link

    def _start(self, gradients: torch.Tensor, divisor: int) -> Future[torch.Tensor]:
        """One all-reduce of the backend.

        They are divided before they are summed: so no sum overflows that the average would not.
        """
        sent = gradients.float()
        sent.div_(divisor)
        return self._whole_group.start_all_reduce(sent).then(lambda done: _decoded(gradients, done.value()[0]))

    def _summed(self, gradients: torch.Tensor, divisor: int, carried: torch.Tensor) -> None:
        """Replace gradients by their sum over the ranks / divisor; by the queue, in fp32."""
        vector = gradients
        if gradients.dtype != torch.float32:
            vector = self._links[self._reduction.links[0]].buffer("gradients", "float32", len(gradients))
            vector.copy_(gradients)
        vector.div_(divisor)
        self._reduction.sum(vector, self._links, partial(self._exchange, carried))
        _decoded(gradients, vector)

    def _exchange(self, carried: torch.Tensor, part: torch.Tensor, link: AnyLink, start: int) -> None:
        """Sum a part of a vector over a link in the wire type."""
        self.wire.sum(part, link, carried[start : start + len(part)])


def _decoded(gradients: torch.Tensor, received: torch.Tensor) -> torch.Tensor:
    return received if received.dtype == gradients.dtype else gradients.copy_(received)


def communication_of(
    case: Case, group: Group, device: torch.device, stages: StageLinks | None = None
) -> Communication:
    """The gradient averaging that a case asks for, by the path chosen for its group, else by the first that it may use.

    `stages`: the links of a pipeline. Collective over the group; InputError if the group has no path.
    """
    wire = WIRES[case.wire]()
    exchange = exchange_of(group, device).training if group.divided.shards > 1 else None
    if group.divided.replicas == 1:
        return Communication(1, device, wire, None, exchange, stages)
    links = links_of(group, device)
    communication = Communication(group.divided.replicas, device, wire, links, exchange, stages)
    communication.use(links.chosen or paths_of(case, links)[0])
    return communication
