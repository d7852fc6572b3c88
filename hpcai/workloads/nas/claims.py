"""Claims about `[nas]`: dataset, trials together and one by one, and the search by its input."""

from hpcai.claims.image_data_claims import IMAGE_DATA, image_data
from hpcai.claims.memory_claims import MEMORY
from hpcai.claims.telemetry_claims import TELEMETRY
from hpcai.claims.training_claims import SAMPLES_IN_MEMORY
from hpcai.results.alterations import changed
from hpcai.results.claim import Claim, Claims, Subject
from hpcai.workloads.nas.search_claims import SEARCH, distinct_trials, sums
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


CLAIMS: Claims = (
    (*IMAGE_DATA, GRANTED, *distinct_trials("raw.")),
    (SAMPLES_IN_MEMORY, *SEARCH, *TIME, *trial_claims("raw."), *MEMORY, *TELEMETRY),
)
STOPPED_CLAIMS: Claims = (
    (*image_data(""), *distinct_trials("")),
    (
        *sums(""),
        *STOPPED_TIME,
        *trial_claims(""),
        Claim("at most TRIALS trials", _only_part, changed("settings.TRIALS", 3), example="limited"),
    ),
)
