"""The nodes that are planned for, as far as the command line describes them; the rest is as on this machine."""

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class PlannedNode:
    """A node of another machine; None: as of this one.

    ranks: of a full node. cores: of its processors. memory, gpu_memory: bytes that the program may use, of the node and
    of a GPU. gpus: 0 for none. link: bytes per second each way between two nodes.
    """

    ranks: int | None = None
    cores: int | None = None
    memory: int | None = None
    gpus: int | None = None
    gpu_memory: int | None = None
    link: float | None = None

    @property
    def described(self) -> bool:
        """Whether anything is given."""
        return any(getattr(self, field.name) is not None for field in fields(self))


THIS_ONE = PlannedNode()
