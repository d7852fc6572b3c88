"""Tests of `[nas]`."""

from sample_records import altered
from synthetic_search import searched

from examples.delivered import with_delivered
from hpcai.record.loading import result_of
from hpcai.results.alterations import Alteration, changed
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


EVALUATED = changed("raw.evaluation_deviation", 0.5)


def search(*settings: str) -> Subject:
    """The made-up search with other settings."""
    result = result_of(searched(*settings))
    return Subject(verify.cases_of(result)[0], altered(result.tests[0], with_delivered, EVALUATED), result.environment)


def stopped(subject: Subject) -> Subject:
    """The search, if the run had been broken off at its end."""
    found = {name: getattr(subject.entry.raw, name) for name in SearchMeasured.__struct_fields__}
    return Subject(subject.case, StoppedSearch(**found), subject.environment)


def having(settings: str, *alterations: Alteration) -> Subject:
    """The search with other settings, and the measurements that follow from them."""
    subject = search(settings)
    return Subject(subject.case, altered(subject.entry, *alterations), subject.environment)


PLAIN = search()
STAGED = {"bytes": 800, "reused_bytes": 0, "nodes": 1, "seconds": 0.5, "kept": False}
PROBE = {"fp32_seconds": 0.1, "seconds": 0.2, "converted": False}
EXAMPLES = {
    "": PLAIN,
    "custom": having(
        "custom KERNELS",
        changed("raw.vendor_comparison", COMPARED),
        changed("raw.phases.vendor_comparison", 0.05),
    ),
    "bf16": having("bf16 PRECISION", changed("raw.probe", PROBE), changed("raw.phases.probe", 1.0)),
    "staged": having("local STAGE", changed("raw.staging", STAGED), changed("raw.phases.staging", 0.5)),
    "limited": search("9 TRIALS", "5 ROUNDS"),
}
STOPPED_EXAMPLES = {name: stopped(EXAMPLES[name]) for name in ("", "limited")}
