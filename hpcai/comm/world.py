"""MPI_COMM_WORLD: ranks, nodes, JSON messages, agreement on errors, and aborting the job."""

import atexit
import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from time import sleep
from typing import Any, NoReturn
from zlib import crc32

from mpi4py import MPI

from hpcai.comm import communicators, rank_watch
from hpcai.comm.communicators import RankLost
from hpcai.comm.grid_coordinates import LISTED_RANKS
from hpcai.errors import HpcaiError, LaunchError, Refused
from hpcai.machine import affinity, launcher, scheduler

FLUSH_SECONDS = 0.5  # before MPI_Abort: a launcher drops output that it has not forwarded by then
BY_PEER = "by peer"  # "Connection closed by peer", "Connection reset by peer": errors of sockets
PEER_SECONDS = 1.0  # in which a launcher ends the other ranks


@dataclass
class World:
    """Communicators of all ranks (`comm`) and of the ranks of this node (`node`), and the host name.

    number: the rank when the job began, by which grids are mapped; it differs from `rank` after ranks were lost.
    interface: name and address by which the other nodes reach this one; empty of one node, or if they do not.
    """

    comm: MPI.Comm
    node: MPI.Comm
    host: str
    number: int = field(init=False)
    interface: tuple[str, str] = field(init=False, default=("", ""))

    def __post_init__(self) -> None:
        self.number = self.comm.rank

    def remake(self, comm: MPI.Comm) -> None:
        """Go on with the ranks that are left: `comm` has them, in their order. Collective over these."""
        global _remade
        _remade = True
        self.comm = comm  # also if another rank is lost before the next line has ended
        self.node = comm.Split_type(MPI.COMM_TYPE_SHARED)

    @property
    def rank(self) -> int:
        return self.comm.rank

    @property
    def size(self) -> int:
        return self.comm.size


def join() -> World:
    """Start MPI and make the communicators. Collective over all ranks; Refused if the launcher is of another MPI."""
    comm = MPI.COMM_WORLD
    mistake = comm.allreduce(_launch_mistake(comm.size), MPI.MAX)
    if mistake:
        raise Refused(mistake, LaunchError.exit_code)
    return World(comm, comm.Split_type(MPI.COMM_TYPE_SHARED), own_node())


def own_node() -> str:
    """Name of the node of this rank."""
    return scheduler.node_name(os.environ, socket.gethostname())


def _launch_mistake(size: int) -> str:
    """What is wrong with the launch of this rank; empty if nothing is. Differs between ranks."""
    try:
        launcher.check_size(os.environ, size)
    except LaunchError as error:
        return str(error)
    return ""


def bind_to_processors(world: World) -> affinity.Placement:
    """Divide a machine's processors among its ranks and bind this one. Collective over all ranks.

    Several nodes may be one machine: daemons of Slurm, or launchers that are told several names of it.
    """
    own = affinity.machine(socket.gethostname())
    near = world.comm.Split(crc32(own.encode()) >> 1, world.rank)
    listed = gather_all(near, [own, world.rank, affinity.own_cpus()])
    near.Free()
    sets = {rank: tuple(cpus) for machine, rank, cpus in listed if machine == own}  # two may have one checksum
    placement = affinity.place([*sets.values()], [*sets].index(world.rank), affinity.cgroup_cpus())
    affinity.apply(placement)
    return placement


def broadcast(comm: MPI.Comm, message: Any) -> Any:
    """The JSON message of rank 0, on every rank of `comm`."""
    return json.loads(comm.bcast(json.dumps(message) if comm.rank == 0 else None))


def agreed(comm: MPI.Comm, make: Callable[[], Any]) -> Any:
    """The result of `make` on rank 0, as JSON, on every rank; Refused on every rank if it fails there. Collective."""
    answer = broadcast(comm, _answer(make) if comm.rank == 0 else None)
    made, refusal, code = answer
    if refusal is not None:
        raise Refused(refusal, code)
    return made


def _answer(make: Callable[[], Any]) -> tuple[Any, str | None, int]:
    """The result, and reason and exit code of a refusal."""
    try:
        return make(), None, 0
    except HpcaiError as error:
        return None, str(error), error.exit_code


def gather_all(comm: MPI.Comm, message: Any) -> list[Any]:
    """The JSON messages of all ranks of a communicator that is small by construction: a node, the listed ranks."""
    return [json.loads(text) for text in comm.allgather(json.dumps(message))]


def gather_listed(world: World, message: Any) -> list[Any]:
    """The messages of the first LISTED_RANKS ranks; an empty list on the other ranks. Collective over the world."""
    listed = world.comm.Split(0 if world.rank < LISTED_RANKS else MPI.UNDEFINED, world.rank)
    if listed == MPI.COMM_NULL:
        return []
    messages = gather_all(listed, message)
    listed.Free()
    return messages


def sleeping_barrier(comm: MPI.Comm, pause: float = 0.002) -> None:
    """Barrier in which early ranks sleep: idle ranks must not take processor time from those that are measured."""
    request = comm.Ibarrier()
    while not request.Test():
        sleep(pause)


def on_all_ranks(
    comm: MPI.Comm, work: Callable[[], None], barrier: Callable[[MPI.Comm], None] = sleeping_barrier
) -> None:
    """Run `work` on every rank; Refused on all ranks if it fails on one, with the lowest rank's error. Collective.

    Ranks that have finished wait in `barrier` for the others.
    """
    failed = None
    try:
        work()
    except HpcaiError as error:
        failed = f"rank {comm.rank} on {own_node()}: {error}", error.exit_code
    barrier(comm)
    first = comm.allreduce(comm.rank if failed else comm.size, MPI.MIN)
    if first < comm.size:
        raise Refused(*comm.bcast(failed, first))


_finished = False
_remade = False  # whether ranks were lost


def has_lost() -> bool:
    """Whether the world was made anew, without ranks that were lost; the same on all ranks that are left."""
    return _remade


def finish(code: int = 0) -> None:
    """Note that this rank ends in good order, together with all others. After a loss it ends here, with the exit code.

    MPI_Finalize may wait for a rank that is lost.
    """
    global _finished
    _finished = True
    rank_watch.leave()
    if _remade or _lost_in_the_end():
        leave(code)


def _lost_in_the_end() -> bool:
    """Whether a rank is gone, of a job that outlasts it; the same on all that are left. Collective over these."""
    if communicators.outlast():
        try:
            MPI.COMM_WORLD.Agree(1)
        except MPI.Exception:
            return True
    return False


def leave(code: int) -> NoReturn:
    """End this rank without MPI_Finalize."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def abort_on_early_exit() -> None:
    """Abort the job if the interpreter exits before `finish`: MPI_Finalize would wait for the other ranks for ever."""
    atexit.register(_abort_unless_finished)


def _abort_unless_finished() -> None:
    if not _finished:
        abort("left the program before the end", 3)


def abort(reason: str, code: int, whole: bool = False) -> NoReturn:
    """End the whole job at once, from whichever rank, naming that rank and its host on stderr.

    Where a job outlasts its ranks, only this one ends, unless it is rank 0, or `whole`.
    """
    said = f"rank {MPI.COMM_WORLD.rank} on {own_node()} {reason}"
    rank_watch.explain(said)
    with suppress(OSError, ValueError):  # the reader of the output may be gone
        print(f"hpcai: {said}", file=sys.stderr, flush=True)
        print(end="", flush=True)
    sleep(FLUSH_SECONDS)
    if MPI.COMM_WORLD.rank > 0 and communicators.outlast() and not whole:
        os.kill(os.getpid(), signal.SIGKILL)  # of a rank that exits the launcher tells the others nothing
    MPI.COMM_WORLD.Abort(code)
    os._exit(code)  # MPICH returns from MPI_Abort


def abort_because(error: BaseException) -> NoReturn:
    """End the whole job because of an exception on this rank; errors meant for users have no traceback.

    Where another rank has died, the launcher ends this one while it waits, and the watcher has the last word.
    """
    if BY_PEER in str(error):
        sleep(PEER_SECONDS)
    if isinstance(error, HpcaiError):
        abort(f"cannot go on: {error}", error.exit_code)
    with suppress(OSError, ValueError):
        traceback.print_exception(error)
    abort(f"raised {type(error).__name__}: {error}", 3, whole=is_loss(error))


def is_loss(error: BaseException) -> bool:
    """Whether an error says that another rank is lost, or that another rank has noticed it; of jobs that outlast it."""
    classes = (MPI.ERR_PROC_FAILED, MPI.ERR_PROC_FAILED_PENDING, MPI.ERR_REVOKED)
    told = isinstance(error, RankLost) or (isinstance(error, MPI.Exception) and error.Get_error_class() in classes)
    return told and communicators.outlast()
