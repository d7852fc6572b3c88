"""Claims about searches: the examples fulfil all of them, and each counterexample violates its claim."""

import pytest
from examples import nas
from msgspec import convert
from sample_records import plain

from hpcai.inputfile import Case
from hpcai.results.claim import Claim, Claims, Subject, violated
from hpcai.workloads.nas import claims

KINDS: dict[str, tuple[Claims, dict[str, Subject]]] = {
    "ended": (claims.CLAIMS, nas.EXAMPLES),
    "stopped": (claims.STOPPED_CLAIMS, nas.STOPPED_EXAMPLES),
}
PLAYED = ("hpcai.workloads.nas", "hpcai.claims.preflight_claims")  # claims that workloads share are tested with theirs
ONE_MODEL = "staging: one model needs the same bytes on every node"  # the made-up search has two groups
ALL = [
    (kind, claim)
    for kind, (groups, _) in KINDS.items()
    for group in groups
    for claim in group
    if claim.holds.__module__.startswith(PLAYED) and claim.text != ONE_MODEL
]


def altered(claim: Claim, subject: Subject) -> Subject:
    """The subject with the counterexample's alteration; altered settings are those of its case."""
    entry = plain(subject.entry)
    settings = entry.get("settings", dict(subject.case.settings))
    document = {**entry, "settings": settings}
    claim.counterexample(document)
    entry = {name: document[name] for name in entry}
    case = Case(subject.case.index, subject.case.workload, settings)
    return Subject(case, convert(entry, type(subject.entry)), subject.environment)


@pytest.mark.parametrize(("kind", "claim"), ALL, ids=[f"{kind} {claim.text}".replace(" ", "-") for kind, claim in ALL])
def test_each_claim_is_violated_by_its_counterexample(kind: str, claim: Claim) -> None:
    groups, examples = KINDS[kind]
    example = examples.get(claim.example) or examples[""]
    assert claim.text in violated(groups, altered(claim, example))


@pytest.mark.parametrize(("kind", "example"), [(kind, name) for kind, (_, some) in KINDS.items() for name in some])
def test_examples_violate_no_claim(kind: str, example: str) -> None:
    groups, examples = KINDS[kind]
    assert list(violated(groups, examples[example])) == []


def test_a_search_of_before_bytes_were_counted_violates_no_claim_about_them() -> None:
    subject = nas.EXAMPLES[""]
    shared = Case(1, "nas", {**subject.case.settings, "DEGREE": 2})
    (claim,) = [claim for group in claims.CLAIMS for claim in group if claim.text.startswith("sent: only")]
    assert claim.holds(Subject(shared, subject.entry, subject.environment))
