"""Claims about trainings: the examples fulfil all of them, and each counterexample violates its claim."""

import pytest
from examples import ensemble, language, weather
from sample_records import altered as altered_record

from hpcai.results.claim import Claim, Claims, Subject, violated
from hpcai.workloads.registry import part

EXAMPLES = {
    ("ensemble", "CLAIMS"): ensemble.EXAMPLES,
    ("ensemble", "STOPPED_CLAIMS"): ensemble.STOPPED_EXAMPLES,
    ("weather", "CLAIMS"): weather.EXAMPLES,
    ("weather", "STOPPED_CLAIMS"): weather.STOPPED_EXAMPLES,
    ("language", "CLAIMS"): language.EXAMPLES,
    ("language", "STOPPED_CLAIMS"): language.STOPPED_EXAMPLES,
}
Which = tuple[str, str]


def claims_of(which: Which) -> Claims:
    claims: Claims = getattr(part(which[0], "claims"), which[1])
    return claims


def altered(claim: Claim, subject: Subject) -> Subject:
    """The subject with the counterexample's alteration, which its record allows."""
    return Subject(subject.case, altered_record(subject.entry, claim.counterexample), subject.environment)


ALL = [(which, claim) for which in EXAMPLES for group in claims_of(which) for claim in group]


@pytest.mark.parametrize(
    ("which", "claim"), ALL, ids=[f"{name} {kind}: {claim.text}".replace(" ", "-") for (name, kind), claim in ALL]
)
def test_each_claim_is_violated_by_its_counterexample(which: Which, claim: Claim) -> None:
    subject = EXAMPLES[which][claim.example]
    assert claim.text in violated(claims_of(which), altered(claim, subject))


@pytest.mark.parametrize(("which", "example"), [(which, key) for which, some in EXAMPLES.items() for key in some])
def test_examples_violate_no_claim(which: Which, example: str) -> None:
    subject = EXAMPLES[which][example]
    assert list(violated(claims_of(which), subject)) == []
    if which[1] == "CLAIMS":
        assert subject.entry.verdict == "PASSED"


def test_texts_of_claims_differ() -> None:
    for which in EXAMPLES:
        texts = [claim.text for group in claims_of(which) for claim in group]
        assert len(texts) == len(set(texts)) > 10
