"""What a node says of itself at a moment: its processors, memory and GPUs. What it does not say is None, never 0."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from hpcai.machine import memory
from hpcai.machine.nvml import Gpus

# Share of the processors' time, bytes, share of the GPUs' time, bytes of a GPU.
NAMES = ("processors", "memory_bytes", "gpus", "gpu_memory_bytes")
SHARES = ("processors", "gpus")
Values = tuple[float | None, ...]

STAT = Path("/proc/stat")
COUNTED = 8  # columns of a processor; those behind are parts of the first two
IDLE, WAITING, STOLEN = 3, 4, 7  # of nobody, of nobody while a disk works, of another virtual machine


class NodeSensors:
    """Of one node: `cpus` and `gpus` (identities) are those that its ranks use."""

    def __init__(self, cpus: Sequence[int], gpus: Sequence[str], stat: Path = STAT) -> None:
        self._stat, self._names = stat, {f"cpu{cpu}".encode() for cpu in cpus}
        self._gpus = Gpus(gpus)
        self._memory: memory.Use | None = None
        with suppress(OSError, KeyError, ValueError):
            self._memory = memory.Use()
        self.begin()

    def begin(self) -> None:
        """Let the processors' time of the next reading, and the energy, begin now."""
        self._ticks = self._counted()
        self._joules = self._gpus.joules()

    def joules(self) -> float | None:
        """Energy that the GPUs have taken since `begin`; None unless all tell it, and of a driver that began anew."""
        now = self._gpus.joules()
        return now - self._joules if now is not None and self._joules is not None and now >= self._joules else None

    def read(self) -> Values:
        """The quantities of NAMES: processors since the last reading, all others now."""
        return self._processors(), self._used(), self._gpus.utilisation(), self._gpus.used_bytes()

    def _processors(self) -> float | None:
        before, self._ticks = self._ticks, self._counted()
        if before is None or self._ticks is None:
            return None
        busy, total = (now - then for now, then in zip(self._ticks, before, strict=True))
        return min(max(busy / total, 0.0), 1.0) if total > 0 else None  # the kernel may take back time of waiting

    def _counted(self) -> tuple[int, int] | None:
        """Clock ticks of the processors at work, and all, since the system began."""
        try:
            lines = [line.split(maxsplit=COUNTED + 1) for line in self._stat.read_bytes().splitlines()]
        except OSError:
            return None
        own = [[int(word) for word in words[1 : COUNTED + 1]] for words in lines if words[0] in self._names]
        total = sum(map(sum, own))
        return total - sum(ticks[kind] for ticks in own for kind in (IDLE, WAITING, STOLEN)), total

    def _used(self) -> float | None:
        try:
            return self._memory.nbytes() if self._memory else None
        except (OSError, KeyError, ValueError):
            return None
