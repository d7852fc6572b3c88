"""Communicators of simulated ranks, which count the messages and bytes of each rank.

Calls are counted as these algorithms send them:

- reduce, Reduce, bcast: a binomial tree, which mpi4py uses for Python objects, and MPI for short buffers
- allreduce, Allreduce: both, one after the other; barriers the same without bytes
- gather, Gather, Gatherv: each rank sends to the root, the most that a root can receive
- allgather, Allgather: recursive doubling: log2 of the ranks messages, the bytes of all ranks

Communicators that a rank makes are counted by their number: MPI_Comm_split tells each rank 8 bytes of each other one.
"""
# ruff: noqa: N802, the names of MPI

from collections.abc import Callable, Sequence
from functools import cache, reduce
from math import ceil, log2
from typing import Any

import numpy as np
from greenlet import getcurrent
from mpi4py import MPI
from numpy.typing import NDArray
from simulated_calls import Counted, Members

SAMPLED = 64  # ranks whose objects are measured
LENGTH = 8  # bytes of the length of an object, which goes before it
ON_ARRAYS = (
    (MPI.SUM, np.add),
    (MPI.MAX, np.maximum),
    (MPI.MIN, np.minimum),
    (MPI.LAND, np.logical_and),
    (MPI.LOR, np.logical_or),
)


def steps(size: int) -> int:
    """Rounds in which a message reaches so many ranks."""
    return ceil(log2(size))


@cache
def tree(size: int) -> Counted:
    """Messages that each rank sends or receives in a binomial tree, from or to the first."""
    ranks = np.arange(size)
    found = np.where(ranks > 0, 1, 0)
    for level in range(steps(size)):
        children = (ranks % 2 ** (level + 1) == 0) & (ranks + 2**level < size)
        found += children
    return found


def pickled(value: Any) -> int:
    """Bytes of a Python object as mpi4py sends it."""
    return len(MPI.pickle.dumps(value))


class SimulatedComm(MPI.Intracomm):
    """The calls of a communicator that the reductions of results, and the transport of a search, make."""

    def __new__(cls, *_: Any) -> "SimulatedComm":
        return super().__new__(cls)

    def __init__(self, members: Members, place: int) -> None:
        self.members, self._place = members, place

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __hash__(self) -> int:
        return id(self)

    @property
    def rank(self) -> int:
        return self._place

    @property
    def size(self) -> int:
        return self.members.size

    def allreduce(self, sendobj: Any, op: Any = MPI.SUM) -> Any:
        return self._meet("allreduce", sendobj, lambda values: self._objects(reduce(op, values), values, 1, 1))

    def reduce(self, sendobj: Any, op: Any = MPI.SUM, root: int = 0) -> Any:
        found = self._meet("reduce", sendobj, lambda all_: self._objects(reduce(op, all_), all_, 1, 0, root))
        return found if self._place == root else None

    def bcast(self, obj: Any, root: int = 0) -> Any:
        return self._meet("bcast", obj, lambda values: self._objects(values[root], (), 0, 1, root))

    def gather(self, sendobj: Any, root: int = 0) -> Any:
        found = self._meet("gather", sendobj, lambda values: self._to_root(values, list(map(pickled, values)), root))
        return found if self._place == root else None

    def allgather(self, sendobj: Any) -> Any:
        return self._meet("allgather", sendobj, lambda values: self._to_all(values, sum(map(pickled, values))))

    def Barrier(self) -> None:
        self._meet("Barrier", None, lambda values: self._buffers(None, 0, 2))

    def Ibarrier(self) -> MPI.Request:
        self.Barrier()
        return MPI.Request()  # the null request, which is always complete

    def Allreduce(self, sendbuf: Any, recvbuf: Any, op: Any = MPI.SUM) -> None:
        own = recvbuf.copy() if sendbuf is MPI.IN_PLACE else sendbuf
        recvbuf[...] = self._meet("Allreduce", own, lambda values: self._buffers(_over(op, values), own.nbytes, 2))

    def Reduce(self, sendbuf: Any, recvbuf: Any, op: Any = MPI.SUM, root: int = 0) -> None:
        found = self._meet("Reduce", sendbuf, lambda values: self._buffers(_over(op, values), sendbuf.nbytes, 1, root))
        if self._place == root:
            recvbuf[...] = found

    def Gather(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        found = self._meet("Gather", sendbuf, lambda all_: self._to_root(all_, [each.nbytes for each in all_], root))
        if self._place == root:
            recvbuf[...] = np.stack(found).reshape(recvbuf.shape)

    def Gatherv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        own = sendbuf[0]
        found = self._meet("Gatherv", own, lambda all_: self._to_root(all_, [each.nbytes for each in all_], root))
        if self._place == root:
            recvbuf[0][...] = np.concatenate(found)

    def Allgather(self, sendbuf: Any, recvbuf: Any) -> None:
        every = self._meet("Allgather", sendbuf, lambda all_: self._to_all(np.stack(all_), all_[0].nbytes * len(all_)))
        recvbuf[...] = every.reshape(recvbuf.shape)

    def Split(self, color: int = 0, key: int = 0) -> Any:
        return self._meet("Split", (color, key), self._parts)

    def Split_type(self, split_type: int, key: int = 0, info: Any = None) -> Any:
        node = int(self.members.ranks[self._place]) // self.members.turns.per_node
        return self.Split(node, key)

    def Dup(self, info: Any = None) -> Any:
        return self.Split(0, self._place)

    def Free(self) -> None:
        """Nothing to free."""

    def Isend(self, buf: Any, dest: int, tag: int = 0) -> MPI.Request:
        members, text = self.members, bytes(buf)
        members.turns.count(members.ranks[[self._place, dest]], 1, len(text))
        members.inboxes[dest].append((self._place, text))
        if dest in members.idle:
            members.turns.ready.append(members.idle.pop(dest))
        return MPI.Request()

    def Iprobe(self, source: int = MPI.ANY_SOURCE, tag: int = MPI.ANY_TAG, status: Any = None) -> bool:
        inbox = self.members.inboxes[self._place]
        if inbox:
            status.Set_source(inbox[0][0])
            status.Set_elements(MPI.BYTE, len(inbox[0][1]))
        return bool(inbox)

    def Recv(self, buf: Any, source: int = MPI.ANY_SOURCE, tag: int = MPI.ANY_TAG, status: Any = None) -> None:
        buf[:] = self.members.inboxes[self._place].popleft()[1]

    def show(self, value: Any, see: Callable[[list[Any]], object]) -> None:
        """Show the values of all ranks to a function, once. Collective; no messages are counted."""

        def finish(values: list[Any]) -> list[Any]:
            see(values)
            return values

        self._meet("show", value, finish)

    def sleep(self) -> None:
        """Let others run until a message has arrived."""
        if not self.members.inboxes[self._place]:
            self.members.idle[self._place] = getcurrent()
            self.members.turns.wait()

    def _meet(self, name: str, value: Any, finish: Callable[[list[Any]], Sequence[Any]]) -> Any:
        return self.members.meet(name, self._place, value, finish)

    def _objects(self, result: Any, given: Sequence[Any], up: int, down: int, root: int = 0) -> list[Any]:
        """The same result for all, of Python objects by trees up to the root and down, where its length goes before."""
        nbytes = max(map(pickled, (*given[:: max(1, len(given) // SAMPLED)], result)))
        return self._edges(result, up + 2 * down, (up + down) * nbytes + down * LENGTH, root)

    def _buffers(self, result: Any, nbytes: int, trees: int, root: int = 0) -> list[Any]:
        return self._edges(result, trees, trees * nbytes, root)

    def _edges(self, result: Any, messages: int, nbytes: int, root: int) -> list[Any]:
        """The same result for all, by so many messages and bytes over each edge of a tree."""
        edges = np.roll(tree(self.size), root)
        self.members.turns.count(self.members.ranks, edges * messages, edges * nbytes)
        return [result] * self.size

    def _to_root(self, values: list[Any], nbytes: Sequence[int], root: int) -> list[Any]:
        """All values for all, of which only the root's rank uses them."""
        sent, messages = np.array(nbytes, np.int64), np.ones(self.size, np.int64)
        messages[root] = self.size - 1
        sent[root] = sent.sum() - sent[root]
        self.members.turns.count(self.members.ranks, messages, sent)
        return [values] * self.size

    def _to_all(self, values: Any, nbytes: int) -> list[Any]:
        """All values for all, which have so many bytes together."""
        self.members.turns.count(self.members.ranks, 2 * steps(self.size), 2 * nbytes)
        return [values] * self.size

    def _parts(self, values: list[tuple[int, int]]) -> list[Any]:
        """The communicators of the ranks of each color, in the order of their keys."""
        self.members.turns.splits[self.members.ranks] += 1
        colors: dict[int, list[tuple[int, int]]] = {}
        for place, (color, key) in enumerate(values):
            colors.setdefault(color, []).append((key, place))
        made: list[Any] = [MPI.COMM_NULL] * self.size
        for color, found in colors.items():
            places = [place for _, place in sorted(found)]
            if color != MPI.UNDEFINED:
                members = Members(self.members.turns, self.members.ranks[places])
                for number, place in enumerate(places):
                    made[place] = SimulatedComm(members, number)
        return made


def _over(op: Any, arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    combine = next(combine for known, combine in ON_ARRAYS if known == op)
    total = arrays[0].copy()
    for each in arrays[1:]:
        combine(total, each, out=total)
    return total
