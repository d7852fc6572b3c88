"""Claims about tables: the examples fulfil all of them, and each counterexample violates its claim."""

import pytest
from examples import comm, health, kernels
from sample_records import altered as altered_record

from hpcai.inputfile import Case
from hpcai.results.claim import Claim, Claims, Subject, violated
from hpcai.workloads.registry import part

EXAMPLES = {"kernels": kernels.EXAMPLES, "comm": comm.EXAMPLES, "health": health.EXAMPLES}


def claims_of(workload: str) -> Claims:
    claims: Claims = part(workload, "claims").CLAIMS
    return claims


def altered(claim: Claim, subject: Subject) -> Subject:
    """The subject with the counterexample's alteration, which its record allows."""
    return Subject(subject.case, altered_record(subject.entry, claim.counterexample), subject.environment)


ALL = [(name, claim) for name in EXAMPLES for group in claims_of(name) for claim in group]


@pytest.mark.parametrize(
    ("workload", "claim"), ALL, ids=[f"{name}: {claim.text}".replace(" ", "-") for name, claim in ALL]
)
def test_each_claim_is_violated_by_its_counterexample(workload: str, claim: Claim) -> None:
    subject = EXAMPLES[workload][claim.example]
    assert claim.text in violated(claims_of(workload), altered(claim, subject))


@pytest.mark.parametrize(("workload", "example"), [(name, key) for name, some in EXAMPLES.items() for key in some])
def test_examples_violate_no_claim(workload: str, example: str) -> None:
    subject = EXAMPLES[workload][example]
    assert list(violated(claims_of(workload), subject)) == []
    assert subject.entry.verdict == "PASSED"
    assert part(workload, "record").ENTRY is type(subject.entry) and isinstance(subject.case, Case)


def test_texts_of_claims_differ() -> None:
    for name in EXAMPLES:
        texts = [claim.text for group in claims_of(name) for claim in group]
        assert len(texts) == len(set(texts)) > 10
