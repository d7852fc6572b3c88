"""What two tests must have in common to be compared."""

from collections.abc import Collection, Iterator

from hpcai.record.entry import Entry

# KEYs that change nothing that is compared
UNMEASURED = ("OUTPUT", "LEVEL", "TELEMETRY", "TIMELIMIT", "WATCHDOG", "CHECKPOINT", "ENERGY", "MLLOG")


def facts_of(test: Entry, free: Collection[str] = ()) -> Iterator[tuple[str, object]]:
    """Workload, data and KEYs of a test, but for those in `free` and in UNMEASURED."""
    yield "workload", test.workload
    yield "data", test.raw.dataset.fingerprint if hasattr(test.raw, "dataset") else None
    yield from ((key, value) for key, value in test.settings.items() if key not in (*free, *UNMEASURED))
