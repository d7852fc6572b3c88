"""What the notes below a row of a report say."""

import re

from hpcai.ranking.report_parser import ReportedRow

SEARCH = "a search that began with "  # whose networks have different operations
NETWORK = re.compile(
    rf"(?:{SEARCH})?(?P<network>(?P<name>\S+) (?:\S+ at \d+x\d+|at \d+ bytes)), rule (?P<rule>\S+):"
    r" (?P<per_sample>\d+) FLOP per sample, (?P<credited>\d+) credited"
)
DATA = re.compile(r"(?P<dataset>.*), \d+ \+ \d+ \S+, sha256 [0-9a-f]{64}")


def network_of(row: ReportedRow) -> re.Match[str] | None:
    """Network and operations of a row, by the names of NETWORK."""
    return NETWORK.fullmatch(row.notes.get("Network", ""))


def dataset_of(row: ReportedRow) -> str:
    """Name of a row's dataset, empty if there is none."""
    found = DATA.fullmatch(row.notes.get("Data", ""))
    return found["dataset"] if found else ""


def status_of(row: ReportedRow) -> str:
    """The status of a row."""
    return row.notes.get("Status", "").partition(";")[0]
