"""Claims about epochs, samples and validations of a trial, by the input and its shard."""

from math import ceil, inf, log

from hpcai.formulas import trial_schedule
from hpcai.formulas.precision import PRECISIONS
from hpcai.formulas.sample_fingerprint import expected_fingerprint
from hpcai.record.trial import COMPLETED, FAILED, Trial
from hpcai.workloads.nas.searched_trials import Search

UNKNOWN = ("memory", "lost")  # ends that leave no account of the last steps
ANY = 2**31  # epochs: a PATIENCE without limit
ROUNDED = 1e-3  # share of a loss: outputs are rounded before the loss is computed


def planned(search: Search, trial: Trial) -> bool:
    return trial.planned_epochs == trial_schedule.planned_epochs(trial.round, search.case.epochs)


def epochs(search: Search, trial: Trial) -> bool:
    return [entry.epoch for entry in trial.curve] == [*range(1, len(trial.curve) + 1)]


def length(search: Search, trial: Trial) -> bool:
    complete = trial.end != "planned" or len(trial.curve) == trial.planned_epochs
    return complete and len(trial.curve) <= trial.planned_epochs


def cut(search: Search, trial: Trial) -> bool:
    """Whether only the last epoch of a trial was cut, and of no trial that was completed."""
    cut = [entry.correct is None for entry in trial.curve]
    return not any(cut[:-1]) and not (any(cut) and trial.end in COMPLETED)


def patience(search: Search, trial: Trial) -> bool:
    """Whether a trial ended when PATIENCE says, and not before."""
    most, stale = trial_schedule.patience(trial.round, search.case["PATIENCE"] or ANY), epochs_without_progress(trial)
    late = search.case["PATIENCE"] != 0 and max(stale[:-1], default=0) > most
    return not late and (trial.end != "patience" or stale[-1:] >= [most])


def epochs_without_progress(trial: Trial) -> list[int]:
    """For each epoch, the number of epochs since the validation loss last improved."""
    least, since, found = inf, 0, list[int]()
    for entry in trial.curve:
        loss = inf if entry.validation_loss is None else entry.validation_loss
        since = 0 if trial_schedule.improves(loss, least) else since + 1
        least = loss if since == 0 else least
        found.append(since)
    return found


def losses(search: Search, trial: Trial) -> bool:
    """Whether every epoch that was validated has both losses; one that was cut has no second one."""
    if trial.end in FAILED:
        return True
    both = all(e.loss is not None and e.validation_loss is not None for e in trial.curve if e.correct is not None)
    return both and all(entry.validation_loss is None for entry in trial.curve if entry.correct is None)


def exact(search: Search, trial: Trial) -> bool:
    """Whether the samples and steps of a trial follow from its shard."""
    return trial.end not in UNKNOWN and not PRECISIONS[search.case.precision].scaled


def samples(search: Search, trial: Trial) -> bool:
    shard = search.shard(trial)
    whole, batch = shard.samples * shard.ranks, shard.batch * shard.ranks
    full = [entry.samples for entry in trial.curve if entry.correct is not None]
    begun = sum(entry.samples for entry in trial.curve if entry.correct is None)
    if not exact(search, trial):
        return max([begun, *full]) <= whole and sum(full) + begun + trial.skipped <= whole * len(trial.curve)
    return full == [whole] * len(full) and begun == min(whole, ceil(begun / batch) * batch)


def steps(search: Search, trial: Trial) -> bool:
    shard = search.shard(trial)
    full = sum(entry.correct is not None for entry in trial.curve)
    begun = sum(entry.samples for entry in trial.curve if entry.correct is None)
    expected = full * shard.steps + ceil(begun / (shard.batch * shard.ranks))
    return not exact(search, trial) or trial.steps == expected


def counted(search: Search, trial: Trial) -> bool:
    samples = search.raw.dataset.validation_samples
    expected = expected_fingerprint(samples)
    validated = [entry for entry in trial.curve if entry.correct is not None]
    return all((entry.counted, entry.fingerprint) == (samples, expected) for entry in validated)


def correct(search: Search, trial: Trial) -> bool:
    samples = search.raw.dataset.validation_samples
    return all(entry.correct is None or entry.correct <= samples for entry in trial.curve)


def loss_of_errors(search: Search, trial: Trial) -> bool:
    """Whether validation losses are as large as errors make them: a misclassified sample costs log(2) at least."""
    samples = search.raw.dataset.validation_samples
    return all(
        entry.correct is None
        or entry.validation_loss is None
        or entry.validation_loss >= (1 - ROUNDED) * log(2) * (samples - entry.correct) / samples
        for entry in trial.curve
    )
