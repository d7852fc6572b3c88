"""Going on without lost ranks: User Level Failure Mitigation (Bland et al., 2013), Open MPI's `--with-ft mpi`.

A rank that is killed makes calls of the others fail. Those that are left agree on who they are, and make the world
anew; a case then goes on from its checkpoints without the groups that have lost a rank (hpcai.attempts).
"""

from collections.abc import Callable
from contextlib import suppress
from time import sleep

from mpi4py import MPI
from torch import distributed

from hpcai import clock
from hpcai.comm import communicators
from hpcai.comm import world as worlds
from hpcai.comm.communicators import RankLost
from hpcai.comm.world import World, is_loss

REPORTED = 5.0  # seconds in which the runtime tells that a process has died
PAUSE = 0.01  # seconds between two looks
# What a rank may see when another one is lost: torch reports closed connections by RuntimeError.
ERRORS = (RankLost, MPI.Exception, RuntimeError)

_deferred: list[Callable[[], None]] = []


def defer(call: Callable[[], None]) -> None:
    """Call it when all ranks that are left have paused: until then others may use what it removes.

    At once where the job does not go on.
    """
    if communicators.outlast():
        _deferred.append(call)
    else:
        call()


def recover(world: World, error: BaseException) -> list[int]:
    """Make the world of the ranks that are left; the numbers of all that are lost, ascending, the same on every rank.

    error: what this rank saw; raised again if no rank is lost. Collective over the ranks that are left: whoever comes
    first interrupts the others.
    """
    if not communicators.outlast() or not (is_loss(error) or _reported(world.comm)):
        raise error
    for comm in (world.comm, world.node):
        comm.Revoke()
    communicators.revoke()
    _leave_process_group()
    world.remake(world.comm.Shrink())
    while _deferred:
        _deferred.pop(0)()
    return lost(world)


def since_start() -> float:
    """Seconds since the process was started; 0 in the further attempts at a test, as the first had this time."""
    return 0.0 if worlds.has_lost() else clock.since_process_start()


def lost(world: World) -> list[int]:
    """The numbers of the ranks that are lost, ascending."""
    if not worlds.has_lost():
        return []
    before = MPI.COMM_WORLD.group
    gone = MPI.Group.Difference(before, world.comm.group)
    return sorted(MPI.Group.Translate_ranks(gone, None, before))


def _reported(comm: MPI.Comm) -> bool:
    """Whether a rank of the communicator is gone, or another rank says so."""
    until = clock.now() + REPORTED
    while clock.now() < until:
        if comm.Get_failed().size or comm.Is_revoked():
            return True
        with suppress(MPI.Exception):
            comm.Iprobe()  # or no message of the runtime is taken
        sleep(PAUSE)
    return False


def _leave_process_group() -> None:
    """Close this rank's connections, so that those who wait for it learn that it does not come."""
    if distributed.is_initialized():
        with suppress(RuntimeError):
            distributed.destroy_process_group()
