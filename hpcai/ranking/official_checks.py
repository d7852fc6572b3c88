"""What the rows of a report contradict that call themselves VALID: the official problem, and its operations."""

from collections.abc import Iterator

from hpcai import networks, opcount
from hpcai.formulas.eligibility import VALID
from hpcai.formulas.official_rules import OfficialRules
from hpcai.ranking.report_notes import dataset_of, network_of, status_of
from hpcai.ranking.report_parser import ReportedRow
from hpcai.report.rows import network_words
from hpcai.workloads import registry


def departures(row: ReportedRow) -> Iterator[str]:
    """Where a row that calls itself VALID departs from its workload's official problem."""
    if status_of(row) != VALID or not row.workload.trains:
        return
    rules: OfficialRules = registry.part(row.workload.name, "checks").RULES
    for what, found, official in _facts(row, rules):
        if found != official:
            yield f"{row.tv}: VALID with {what} {found or 'not printed'}, official {official}"


def _facts(row: ReportedRow, rules: OfficialRules) -> Iterator[tuple[str, str, str]]:
    """What is printed, and what the rules say."""
    found = network_of(row)
    yield "dataset", dataset_of(row), rules.dataset
    yield "network", found["network"] if found else "", network_words(rules.network, rules.variant, rules.resolution)
    if found and found["rule"] in opcount.RULES:
        yield "FLOP per sample", found["per_sample"], str(operations(rules, found["rule"]))


def operations(rules: OfficialRules, rule: str) -> int:
    """Operations of a sample of the official problem."""
    graph = networks.build(rules.network, rules.resolution, rules.channels, rules.classes, rules.variant)
    return opcount.count(graph, rule).total
