"""Sensors of a node: its processors, memory, GPUs and links. A quantity that is not available is None, never 0."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from hpcai.machine import memory
from hpcai.machine.nvml import Gpus
from hpcai.machine.traffic_counters import SYSTEM, TrafficCounters
from hpcai.record.machine import QUANTITIES

NAMES = QUANTITIES
SHARES = ("processors", "gpus")
Values = tuple[float | None, ...]

STAT = Path("/proc/stat")
COUNTED = 8  # columns of a processor; later columns are contained in the first two
IDLE, WAITING, STOLEN = 3, 4, 7  # idle, iowait, steal


class NodeSensors:
    """Sensors of one node; `cpus` and `gpus` (identities) are those that its ranks use."""

    def __init__(self, cpus: Sequence[int], gpus: Sequence[str], stat: Path = STAT, system: Path = SYSTEM) -> None:
        self._stat, self._names = stat, {f"cpu{cpu}".encode() for cpu in cpus}
        self._gpus = Gpus(gpus)
        self._traffic = TrafficCounters(self._gpus, system)
        self._memory: memory.Use | None = None
        with suppress(OSError, KeyError, ValueError):
            self._memory = memory.Use()
        self.begin()

    def begin(self) -> None:
        """Start the interval of the next reading now."""
        self._ticks = self._counted()
        self._traffic.begin()

    def read(self) -> Values:
        """The quantities of NAMES: processors and bytes per second since the last reading, the others at this time."""
        now = (self._processors(), self._used(), self._gpus.utilisation(), self._gpus.used_bytes())
        return *now, *self._traffic.rates()

    def _processors(self) -> float | None:
        before, self._ticks = self._ticks, self._counted()
        if before is None or self._ticks is None:
            return None
        busy, total = (now - then for now, then in zip(self._ticks, before, strict=True))
        return min(max(busy / total, 0.0), 1.0) if total > 0 else None  # iowait may decrease

    def _counted(self) -> tuple[int, int] | None:
        """Busy and total clock ticks of the processors since boot."""
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
