"""Counters of a node's energy: NVML (its GPUs), RAPL (packages and DRAM), Cray's pm_counters (the whole node).

Sources: Linux, Documentation/power/powercap (`energy_uj`, `max_energy_range_uj`); HPE Cray EX, `pm_counters`; NVML API
reference, `nvmlDeviceGetTotalEnergyConsumption`.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Protocol

from hpcai import clock
from hpcai.machine.nvml import Gpus
from hpcai.record.energy import Covers, Source

SYSTEM = Path("/sys")
MICRO = 1e-6
# Watts that a domain does not exceed: within range / watts seconds its counter starts again from 0 at most once.
MOST_WATTS = {"package": 500.0, "dram": 200.0}
LATE = 1.0  # seconds by which a counter may follow
SHARE_OF_RANGE = 0.25  # of that time, between two readings


class NotCountedError(Exception):
    """Energy that is not known; the text says why."""


class Counter(Protocol):
    """A counter of this node; both methods raise NotCountedError."""

    @property
    def covers(self) -> Covers:
        """The part of the node that is counted."""

    def begin(self) -> None:
        """Read the counter, at the beginning of the interval."""

    def joules(self) -> float:
        """Read it again: energy since `begin`."""


class GpuCounter:
    """Energy of GPUs by NVML."""

    covers: Covers = "GPUs"

    def __init__(self, gpus: Gpus) -> None:
        self._gpus = gpus

    def begin(self) -> None:
        self._begun = self._read()

    def joules(self) -> float:
        return _difference(self._begun, self._read(), "NVML")

    def _read(self) -> float:
        joules = self._gpus.joules()
        if joules is None:
            raise NotCountedError("NVML: no energy of all GPUs of the test")
        return joules


class PmCounters:
    """Energy of a whole Cray node, in joules."""

    covers: Covers = "node"

    def __init__(self, root: Path = SYSTEM) -> None:
        self._path = root / "cray/pm_counters/energy"

    def begin(self) -> None:
        self._begun = _number(self._path)

    def joules(self) -> float:
        return float(_difference(self._begun, _number(self._path), str(self._path)))


class _Domain:
    """A RAPL domain; its counter goes from 0 to `range` and starts again."""

    def __init__(self, folder: Path, watts: float) -> None:
        self._path, self._watts = folder / "energy_uj", watts
        self._range = _number(folder / "max_energy_range_uj")

    @property
    def shortest(self) -> float:
        """Seconds in which the counter may start again."""
        return self._range * MICRO / self._watts

    def begin(self) -> None:
        self.microjoules = 0
        self._count, self._time = _number(self._path), clock.now()

    def update(self) -> None:
        """Add what was counted since the last reading."""
        count, time = _number(self._path), clock.now()
        if (seconds := time - self._time) >= self.shortest:
            raise NotCountedError(f"{self._path}: it may have started from 0 more than once in {seconds:.0f} s")
        counted = self._since(count)
        if counted * MICRO > self._watts * (seconds + LATE):
            raise NotCountedError(f"{self._path}: {counted * MICRO:.0f} J in {seconds:.1f} s; was it set to 0?")
        self.microjoules += counted
        self._count, self._time = count, time

    def _since(self, count: int) -> int:
        return count - self._count + (self._range if count < self._count else 0)


class Rapl:
    """Energy of all packages and, where it is counted, of their DRAM.

    Cores are part of a package; psys contains the packages and is not added. A thread reads the counters between
    `begin` and `joules`, so often that none can start again twice from one reading to the next.
    """

    def __init__(self, root: Path = SYSTEM) -> None:
        folder = root / "class/powercap"
        kinds = {zone: _text(zone / "name").partition("-")[0] for zone in sorted(folder.glob("intel-rapl:*"))}
        self._domains = [_Domain(zone, MOST_WATTS[kind]) for zone, kind in kinds.items() if kind in MOST_WATTS]
        if "package" not in kinds.values():
            raise NotCountedError(f"{folder}: no RAPL package")
        self.covers: Covers = "packages and DRAM" if "dram" in kinds.values() else "packages"

    def begin(self) -> None:
        for domain in self._domains:
            domain.begin()
        self._ended = Event()
        self._thread = Thread(target=self._read_often, name="rapl", daemon=True)
        self._thread.start()

    def joules(self) -> float:
        self._ended.set()
        self._thread.join()
        self._update()
        return self.microjoules * MICRO

    @property
    def microjoules(self) -> int:
        """Energy from `begin` to the last reading."""
        return sum(domain.microjoules for domain in self._domains)

    def _read_often(self) -> None:
        """A reading that fails is left out; the next one finds whether that was too long."""
        pause = SHARE_OF_RANGE * min(domain.shortest for domain in self._domains)
        while not self._ended.wait(pause):
            with suppress(NotCountedError):
                self._update()

    def _update(self) -> None:
        for domain in self._domains:
            domain.update()


def counters(gpus: Sequence[str], root: Path = SYSTEM) -> tuple[dict[Source, Counter], str]:
    """The counters of this node that answer, and why others do not.

    gpus: identities of those of the test. root: the folder in place of /sys.
    """
    makers: dict[Source, Callable[[], Counter]] = {"pm_counters": lambda: PmCounters(root), "rapl": lambda: Rapl(root)}
    if gpus:
        makers["nvml"] = lambda: GpuCounter(Gpus(gpus))
    found: dict[Source, Counter] = {}
    reasons = []
    for source, make in makers.items():
        try:
            counter = make()
            counter.begin()
            counter.joules()
            found[source] = counter
        except NotCountedError as error:
            reasons.append(str(error))
    return found, "; ".join(reasons)


def _difference(begun: float, now: float, what: str) -> float:
    if now < begun:
        raise NotCountedError(f"{what}: the counter went back from {begun:g} to {now:g} J")
    return now - begun


def _number(path: Path) -> int:
    """The first word of a file, a whole number."""
    text = _text(path)
    try:
        return int(text.split()[0])
    except (ValueError, IndexError):
        raise NotCountedError(f"{path}: {text[:40]!r} is no whole number") from None


def _text(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace").strip()
    except OSError as error:
        raise NotCountedError(f"{path}: {error.strerror}") from None
