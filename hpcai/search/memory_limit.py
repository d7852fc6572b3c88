"""Memory limit of a rank: whether a network fits, by an estimate corrected by the measured peaks of trials."""

from collections.abc import Mapping

from hpcai import estimate
from hpcai.estimate import Facts
from hpcai.inputfile.key import Setting
from hpcai.networks.graph import Graph


class MemoryLimit:
    """What fits into a rank's memory: a GPU's own memory, else the process's."""

    def __init__(self, settings: Mapping[str, Setting], facts: Facts, baseline: int, free: int, corrects: bool) -> None:
        """`baseline`: bytes in use before a trial; `free`: bytes that are left.

        Unless it `corrects`, measured peaks do not change estimates: where runs are to be repeatable, a proposal must
        not depend on them.
        """
        self._settings, self._facts, self._baseline, self._free = settings, facts, baseline, free
        self._corrects = corrects
        self._ratio = 1.0
        self._largest_estimate = 1

    def planned(self, graph: Graph, batch: int) -> int:
        """Estimated peak of a trial in bytes, baseline included."""
        return self._baseline + self._estimate(graph, batch)

    def fits(self, graph: Graph, batch: int) -> bool:
        """Whether the corrected estimate of a trial is within the free memory."""
        return self._ratio * self._estimate(graph, batch) <= self._free

    def note_peak(self, nbytes: int, planned: int) -> None:
        """Correct all later estimates by the measured peak of a trial with that plan; never downwards."""
        self._largest_estimate = max(self._largest_estimate, planned - self._baseline)
        if self._corrects:
            self._ratio = max(self._ratio, (nbytes - self._baseline) / self._largest_estimate)

    def _estimate(self, graph: Graph, batch: int) -> int:
        return estimate.total(estimate.memory(graph, {**self._settings, "BATCH": batch}, self._facts))
