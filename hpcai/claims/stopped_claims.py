"""Claims about a training that was broken off: no more work than input, shards and steps allow."""

from itertools import pairwise

from hpcai.claims.curve_claims import curve_of
from hpcai.claims.shards import evaluated, shards_of, trained
from hpcai.data.order import Shard
from hpcai.formulas.precision import PRECISIONS
from hpcai.inputfile import Case
from hpcai.record.training import StoppedTraining
from hpcai.results.alterations import changed
from hpcai.results.claim import Claim, Subject
from hpcai.results.row import per_sample


def _stopped(subject: Subject) -> StoppedTraining:
    stopped: StoppedTraining = subject.entry
    return stopped


def _shards(subject: Subject) -> tuple[Shard, ...]:
    return shards_of(subject.case, _stopped(subject).dataset.training_samples)


def _samples(subject: Subject) -> int:
    return _stopped(subject).samples + _stopped(subject).skipped_samples


def _steps(subject: Subject) -> bool:
    whole = subject.case.epochs * sum(shard.steps for shard in _shards(subject))
    return bool(_stopped(subject).steps <= whole)


def _of_the_steps(subject: Subject) -> bool:
    case, steps, shards = subject.case, _stopped(subject).steps, _shards(subject)
    least = _least(case, shards, steps)
    most = min(_full(case, steps), trained(case, shards)) if len(shards) > 1 else least
    return least <= _samples(subject) <= most


def _full(case: Case, steps: int) -> int:
    """Samples of `steps` steps if all batches were full."""
    return steps * case.batch * case.degree


def _least(case: Case, shards: tuple[Shard, ...], steps: int) -> int:
    """Fewest samples of `steps` steps, with as many last batches of an epoch as possible."""
    # samples missing from the last batch of an epoch
    missing = [shard.steps * shard.batch - shard.samples for shard in shards]
    ends = [min(case.epochs, steps // shard.steps) for shard in shards]
    return _full(case, steps) - sum(end * lack for end, lack in zip(ends, missing, strict=True)) * case.split.replicas


def _executed(subject: Subject) -> bool:
    stopped = _stopped(subject)
    return stopped.executed_operations == _samples(subject) * per_sample(subject.case, stopped.dataset)


def stopped_work() -> tuple[Claim, ...]:
    """Claims about the work done."""
    return (
        Claim(
            "nothing trained in preparation",
            lambda subject: _stopped(subject).where != "preparation" or _stopped(subject).steps == 0,
            changed("where", "preparation"),
        ),
        Claim("steps <= EPOCHS x the steps of all models", _steps, changed("steps", 10**6)),
        Claim("samples + skipped_samples, of the steps", _of_the_steps, changed("samples", 1)),
        Claim(
            "samples skipped with a loss scale only",
            lambda subject: _stopped(subject).skipped_samples == 0 or PRECISIONS[subject.case.precision].scaled,
            changed("skipped_samples", 1),
        ),
        Claim("executed_operations, of the samples", _executed, changed("executed_operations", 1)),
        Claim(
            "seconds > 0 if, and only if, steps > 0",
            lambda subject: (_stopped(subject).seconds > 0) == (_stopped(subject).steps > 0),
            changed("seconds", 0.0),
        ),
    )


def _epochs(subject: Subject) -> list[int]:
    return [entry.epoch for entry in curve_of(subject)]


def _asked(subject: Subject) -> bool:
    epochs = _epochs(subject)
    finite = [entry.epoch for entry in curve_of(subject) if entry.loss is not None]
    expected = evaluated(subject.case)[: len(finite)] == finite == epochs[: len(finite)]
    return expected and len(epochs) - len(finite) <= 1


def _trained(subject: Subject) -> bool:
    last = max(_epochs(subject), default=0)
    return last <= subject.case.epochs and last * _shards(subject)[0].steps <= _stopped(subject).steps


def stopped_curve() -> tuple[Claim, ...]:
    """Claims about the validation curve of the first model until then."""
    return (
        Claim(
            "curve: epochs that EVALUATE asks for, until the loss is not finite",
            _asked,
            changed("curve.0.epoch", 9),
        ),
        Claim("curve: of epochs that were trained", _trained, changed("curve.0.epoch", 9)),
        Claim(
            "curve: epochs go on",
            lambda subject: all(earlier < later for earlier, later in pairwise([0, *_epochs(subject)])),
            changed("curve.0.epoch", 0),
        ),
    )
