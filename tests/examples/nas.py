"""Tests of `[nas]`."""

from made_records import altered
from synthetic_search import searched

from hpcai.record.loading import result_of
from hpcai.results.alterations import changed
from hpcai.results.claim import Subject
from hpcai.verification import verify
from hpcai.workloads.nas.record import SearchMeasured, StoppedSearch

COMPARED = {
    "losses": {"custom": [2.0, 1.5, 1.2, 1.1], "vendor": [2.0, 1.5, 1.2, 1.10001], "rounding": 1e-5},
    "evaluated": {"custom": [0.9], "vendor": [0.90001], "rounding": 1e-5},
    "gradient": {"where": "stem_conv", "deviation": 1e-4, "rounding": 1e-4, "norm": 1.0},
    "statistics": {"where": "stem_norm", "deviation": 1e-4, "rounding": 1e-4, "norm": 1.0},
    "custom_seconds": 0.02,
    "vendor_seconds": 0.015,
}


def search(*settings: str) -> Subject:
    """The made-up search with other settings."""
    result = result_of(searched(*settings))
    return Subject(verify.cases_of(result)[0], result.tests[0], result.environment)


def stopped(subject: Subject) -> Subject:
    """The search, had the run been broken off at its end."""
    found = {name: getattr(subject.entry.raw, name) for name in SearchMeasured.__struct_fields__}
    return Subject(subject.case, StoppedSearch(**found), subject.environment)


def compared() -> Subject:
    """A search by custom kernels."""
    subject = search("custom KERNELS")
    entry = altered(subject.entry, changed("raw.vendor_comparison", COMPARED))
    return Subject(subject.case, entry, subject.environment)


PLAIN = search()
EXAMPLES = {"": PLAIN, "custom": compared(), "limited": search("9 TRIALS", "5 ROUNDS")}
STOPPED_EXAMPLES = {name: stopped(EXAMPLES[name]) for name in ("", "limited")}
