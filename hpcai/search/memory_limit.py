"""The memory that a rank has for a network: what is estimated, corrected by what trials were measured to need."""

from collections.abc import Mapping
from typing import Any

from hpcai import estimate
from hpcai.estimate import Facts
from hpcai.networks.graph import Graph


class Room:
    """What fits on a rank; of a GPU its own memory is meant, else the process's."""

    def __init__(self, settings: Mapping[str, Any], facts: Facts, baseline: int, free: int, measures: bool) -> None:
        """`baseline`: bytes that are there before a trial; `free`: bytes beside these. Unless it `measures`, estimates
        stay as they are: a choice must not depend on what was measured where runs are to repeat.
        """
        self._settings, self._facts, self._baseline, self._free = settings, facts, baseline, free
        self._measures = measures
        self._ratio = 1.0
        self._most = 1

    def planned(self, graph: Graph, batch: int) -> int:
        """Bytes that a trial is estimated to need at most, with what is there before it."""
        return self._baseline + self._needed(graph, batch)

    def fits(self, graph: Graph, batch: int) -> bool:
        """Whether a trial will find the memory it needs."""
        return self._ratio * self._needed(graph, batch) <= self._free

    def measured(self, nbytes: int, planned: int) -> None:
        """The peak after a trial that was planned so: all later estimates are corrected, never downwards."""
        self._most = max(self._most, planned - self._baseline)
        if self._measures:
            self._ratio = max(self._ratio, (nbytes - self._baseline) / self._most)

    def _needed(self, graph: Graph, batch: int) -> int:
        return estimate.total(estimate.memory(graph, {**self._settings, "BATCH": batch}, self._facts))
