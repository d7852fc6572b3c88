"""Claims about `[nas]`: dataset, trials together and one by one, and the search by its input."""

from hpcai.claims.audit_claims import COPIES, OF_TRIALS
from hpcai.claims.delivered_claims import OF_STEPS, RECOUNTED
from hpcai.claims.energy_claims import ENERGY
from hpcai.claims.image_data_claims import IMAGE_DATA, image_bytes, image_data
from hpcai.claims.loading_claims import loading_claims, trained
from hpcai.claims.memory_claims import MEMORY
from hpcai.claims.processor_claims import processor_claims
from hpcai.claims.telemetry_claims import TELEMETRY
from hpcai.claims.training_claims import SAMPLES_IN_MEMORY
from hpcai.data.prefetch import DEPTH
from hpcai.results.alterations import changed
from hpcai.results.claim import Claim, Claims, Subject
from hpcai.workloads.nas.search_claims import SEARCH, distinct_trials, measured, sums
from hpcai.workloads.nas.time_claims import STOPPED_TIME, TIME
from hpcai.workloads.nas.trial_claims import trial_claims

GRANTED = Claim(
    "granted = trials",
    lambda subject: subject.entry.raw.granted == len(subject.entry.raw.trials) > 0,
    changed("raw.granted", 77),
)


def _only_part(subject: Subject) -> bool:
    """Whether a search that was broken off has at most the trials that the input allows."""
    trials, limit = subject.entry.trials, subject.case["TRIALS"]
    return limit == 0 or len(trials) <= limit


def _unused(subject: Subject) -> int:
    """Most samples that ranks made ready in vain: batches loaded ahead in a trial that the end of time cut."""
    ahead = DEPTH * subject.case.degree
    return sum(ahead * trial.hyperparameters.batch for trial in measured(subject).trials if trial.end == "time")


def _loading(where: str) -> tuple[Claim, ...]:
    """Loading of all trials."""
    return loading_claims(trained, _unused, image_bytes, where)


CLAIMS: Claims = (
    (*IMAGE_DATA, GRANTED, *distinct_trials("raw.")),
    (
        *(SAMPLES_IN_MEMORY, COPIES, *OF_TRIALS, *SEARCH, *OF_STEPS, RECOUNTED),
        *(*TIME, *trial_claims("raw."), *_loading("raw."), *MEMORY, *TELEMETRY, *ENERGY),
        *processor_claims("raw"),
    ),
)
STOPPED_CLAIMS: Claims = (
    (*image_data(""), *distinct_trials("")),
    (
        *sums(""),
        *STOPPED_TIME,
        *trial_claims(""),
        *_loading(""),
        Claim("at most TRIALS trials", _only_part, changed("settings.TRIALS", 3), example="limited"),
    ),
)
