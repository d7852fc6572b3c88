"""The real program with a fault in how a search goes on: resumption_faults.py FAULT [arguments of bench.py]."""

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from planting import Fault, replaced

from hpcai.main import main
from hpcai.search.coordinator import Coordinator
from hpcai.search.group_totals import GroupTotals
from hpcai.search.search_rules import Counts
from hpcai.workloads.nas import measure
from hpcai.workloads.nas.resumed import EarlierJobs


def work_of_earlier_jobs_forgotten() -> Fault:
    """The trials of earlier jobs are in the history, but not in the totals."""

    def make(genuine: Callable[..., None]) -> Any:
        return lambda totals, trials, found: genuine(totals, (), found)

    return replaced(GroupTotals, "restore", make)


def findings_of_earlier_jobs_forgotten() -> Fault:
    """What was found and loaded in the trials of earlier jobs is not in the totals."""

    def make(genuine: Callable[..., None]) -> Any:
        return lambda totals, trials, found: genuine(totals, trials, ())

    return replaced(GroupTotals, "restore", make)


def trials_of_earlier_jobs_not_counted() -> Fault:
    """The coordinator counts the trials of this job only."""

    def make(genuine: Callable[..., None]) -> Any:
        return lambda coordinator, trials, counts: genuine(coordinator, trials, Counts(counts.requests))

    return replaced(Coordinator, "restore", make)


def clock_of_a_search_begins_anew() -> Fault:
    """The time of earlier jobs is not part of the search."""

    def make(genuine: Callable[..., EarlierJobs]) -> Any:
        def earlier(*arguments: Any) -> EarlierJobs:
            found = genuine(*arguments)
            return replace(found, clock=replace(found.clock, seconds=0.0))

        return earlier

    return replaced(measure, "earlier_jobs", make)


if __name__ == "__main__":
    with globals()[sys.argv[1]]():
        sys.exit(main(sys.argv[2:]))
