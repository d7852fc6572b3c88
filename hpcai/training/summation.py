"""Records of how a training summed its gradients, the same on all ranks."""

from collections.abc import Mapping

from mpi4py import MPI

from hpcai.comm.grid import Group
from hpcai.comm.nodes import assumed_ranks
from hpcai.record.all_reduce import AllReduce, Linked, SentGradients
from hpcai.record.exchange import Exchanged
from hpcai.train import step_times
from hpcai.train.communication import CHANNELS, EXCHANGE, Communication

PACKING = "packing"


def all_reduce_of(communication: Communication, comm: MPI.Comm) -> AllReduce | None:
    """The path that the first group uses; None with one rank. Collective over the active ranks."""
    links, path = communication.group_links, communication.path
    if links is None or path is None:
        return None
    found = AllReduce(
        algorithm=path.reduction,  # type: ignore[arg-type]  # the choices of ALLREDUCE
        by=path.by,
        links=tuple(
            Linked(link=name, ranks=count) for name, count in links.sizes(communication.link_names).items()
        ),
        compared=links.trials,
        ranks_per_node=assumed_ranks(),
    )
    first: AllReduce = comm.bcast(found)
    return first


def sent_by(
    found: AllReduce | None, sent: Mapping[str, float], steps: int, comm: MPI.Comm
) -> SentGradients | None:
    """What a rank sent in its steps by each link; None with one rank. Collective over the active ranks."""
    if found is None:
        return None
    return SentGradients(
        bytes={str(name): step_times.mean(sent.get(name, 0.0) / max(steps, 1), comm) for name in found.sizes},
        packing=step_times.mean(sent.get(PACKING, 0.0), comm),
    )


def exchanged_by(sent: Mapping[str, float], group: Group) -> Exchanged | None:
    """Channels that a rank exchanged in its steps; None where models are not sharded. Collective over the grid."""
    if group.divided.shards == 1:
        return None
    return Exchanged(
        bytes=step_times.mean(sent.get(CHANNELS, 0.0), group.active),
        seconds=step_times.mean(sent.get(EXCHANGE, 0.0), group.active),
    )
