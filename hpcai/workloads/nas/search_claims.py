"""Claims about all trials of a search together: their numbers, their sums, and what the input says of the search."""

from collections.abc import Callable
from itertools import pairwise

from hpcai.claims.all_reduce_claims import PATHS
from hpcai.claims.preflight_claims import STAGE, kernels_claims, network_claims, precision_claims
from hpcai.data.order import Shard
from hpcai.formulas.precision import PRECISIONS
from hpcai.formulas.trial_schedule import number
from hpcai.inputfile import Case
from hpcai.record.trial import COMPLETED, Trial
from hpcai.results.alterations import changed, repeated
from hpcai.results.claim import Claim, Subject
from hpcai.workloads.nas.record import SearchMeasured, SearchRaw

Count = Callable[[SearchMeasured], int]

RAW = "raw"  # where the measurements of a search that ended stand
REQUESTS = 2  # of a trial, at least: it is requested, and its result returned


def measured(subject: Subject) -> SearchMeasured:
    """Measurements of a search, complete or broken off."""
    found: SearchMeasured = getattr(subject.entry, "raw", subject.entry)
    return found


def replayed(case: Case) -> bool:
    """Whether the search replays a recorded one, whose choices do not follow from the input."""
    return bool(case.recording)


def by_worker(case: Case, raw: SearchMeasured) -> dict[int, list[Trial]]:
    """The trials of each group of the grid, lost or not, in their order."""
    found: dict[int, list[Trial]] = {worker: [] for worker in range(case.planned_groups)}
    for trial in raw.trials:
        found.setdefault(trial.worker, []).append(trial)
    return found


def _numbered(subject: Subject) -> bool:
    groups = subject.case.planned_groups
    trials = measured(subject).trials
    return all(each.worker < groups and each.id == number(each.round, each.worker, groups) for each in trials)


def _rounds(subject: Subject) -> bool:
    groups = by_worker(subject.case, measured(subject)).values()
    rounds = [[trial.round for trial in trials] for trials in groups]
    return replayed(subject.case) or all(each == [*range(1, len(each) + 1)] for each in rounds)


def distinct_trials(where: str) -> tuple[Claim, ...]:
    """Claims about the numbers of the trials, also of a search that was broken off."""
    return (
        Claim(
            "trials: sorted by number, each once",
            lambda subject: all(one.id < other.id for one, other in pairwise(measured(subject).trials)),
            repeated(f"{where}trials.0"),
        ),
        Claim("trials: numbers by group and round", _numbered, changed(f"{where}trials.0.round", 3)),
        Claim("trials: rounds of a group follow one another", _rounds, changed(f"{where}trials.0.round", 3)),
    )


def _sums(trials_of: Count, total: Count) -> Callable[[Subject], bool]:
    return lambda subject: total(measured(subject)) == trials_of(measured(subject))


def sums(where: str) -> tuple[Claim, ...]:
    """Totals are the sums over the trials."""
    return (
        Claim(
            "work.samples = those of the trials",
            _sums(lambda raw: sum(trial.samples for trial in raw.trials), lambda raw: raw.work.samples),
            changed(f"{where}work.samples", 7),
        ),
        Claim(
            "work.skipped_samples = those of the trials",
            _sums(lambda raw: sum(trial.skipped for trial in raw.trials), lambda raw: raw.work.skipped_samples),
            changed(f"{where}work.skipped_samples", 7),
        ),
        Claim(
            "work.steps = those of the trials",
            _sums(lambda raw: sum(trial.steps for trial in raw.trials), lambda raw: raw.work.steps),
            changed(f"{where}work.steps", 7),
        ),
        Claim(
            "work.executed_operations = those of the trials",
            _sums(
                lambda raw: sum(trial.executed_operations for trial in raw.trials),
                lambda raw: raw.work.executed_operations,
            ),
            changed(f"{where}work.executed_operations", 7),
        ),
    )


def _retired(subject: Subject) -> bool:
    raw = measured(subject)
    lost = sum(trial.end == "lost" for trial in raw.trials)
    return raw.retired_groups == lost < subject.case.planned_groups


def _sharding(subject: Subject) -> bool:
    case, raw = subject.case, measured(subject)
    return raw.sharding == Shard(raw.dataset.training_samples, 0, case.split.replicas, case.replica_batch).rule


def _skipped(subject: Subject) -> bool:
    return measured(subject).work.skipped_samples == 0 or PRECISIONS[subject.case.precision].scaled


def _limits(subject: Subject) -> bool:
    """Whether there are at most as many trials as TRIALS and ROUNDS allow."""
    case, trials = subject.case, measured(subject).trials
    rounds = max((trial.round for trial in trials), default=0)
    return case["TRIALS"] in (0, *range(len(trials), case["TRIALS"] + 1)) and (
        case["ROUNDS"] == 0 or rounds <= case["ROUNDS"]
    )


def _requests(subject: Subject) -> bool:
    raw: SearchRaw = subject.entry.raw
    proposed = replayed(subject.case) or raw.proposals.count >= len(raw.trials)
    return proposed and raw.coordinator.requests >= REQUESTS * len(raw.trials)


def _evaluated(subject: Subject) -> bool:
    """The evaluation of a group's first trial is compared unless it was cut or lost; older results have none."""
    raw, found = measured(subject), measured(subject).delivered
    ended = any(trial.round == 1 and trial.end in COMPLETED for trial in raw.trials)
    return found is None or raw.evaluation_deviation is not None or not ended


def _counted(subject: Subject) -> bool:
    found = measured(subject).delivered
    return found is None or found.recounted_validations is not None


def _between_nodes(subject: Subject) -> bool:
    case, apart = subject.case, measured(subject).work.between_nodes
    return apart <= (case.groups if case.degree > 1 else 0) and (apart == 0 or subject.environment.nodes > 1)


SEARCH = (
    *sums(f"{RAW}."),
    Claim("retired_groups: each with the trial that it lost", _retired, changed("raw.retired_groups", 1)),
    Claim("sharding, by BATCH", _sharding, changed("raw.sharding", "in turns")),
    Claim(
        "backend is none if, and only if, DEGREE = 1",
        lambda subject: (subject.entry.raw.backend == "none") == (subject.case.degree == 1),
        changed("raw.backend", "gloo"),
    ),
    *PATHS,
    Claim(
        "sent: only with DEGREE > 1",  # older results have none
        lambda subject: measured(subject).sent is None or subject.case.degree > 1,
        changed("raw.sent", {"bytes": {"group": 1.0}, "packing": 0.0}),
    ),
    Claim("work.skipped_samples: with a loss scale only", _skipped, changed("raw.work.skipped_samples", 7)),
    *precision_claims(RAW),
    *kernels_claims(RAW, classifies=True),
    *network_claims(RAW),
    *STAGE,
    Claim(
        "largest_deviation: that of the trials",
        lambda subject: (
            subject.entry.raw.largest_deviation == max(trial.deviation for trial in subject.entry.raw.trials)
        ),
        changed("raw.largest_deviation", 1e-3),
    ),
    Claim(
        "replay: steps of the trials",
        lambda subject: subject.entry.raw.replay.steps <= subject.entry.raw.work.steps,
        changed("raw.replay.steps", 10**6),
    ),
    Claim("evaluation_deviation of first trials", _evaluated, changed("raw.evaluation_deviation", None)),
    Claim("delivered.recounted_validations is there", _counted, changed("raw.delivered.recounted_validations", None)),
    Claim("no more trials than TRIALS and ROUNDS", _limits, changed("settings.TRIALS", 3), example="limited"),
    Claim("coordinator: requests and proposals for each trial", _requests, changed("raw.coordinator.requests", 1)),
    Claim(
        "work.between_nodes: of several ranks on several nodes", _between_nodes, changed("raw.work.between_nodes", 1)
    ),
)
