"""From raw measurements of `[errors]` to its entry."""

from hpcai.formulas import eligibility, score
from hpcai.inputfile import Case
from hpcai.results.measured import Before, Measured
from hpcai.results.qualities import Qualities
from hpcai.results.scores import training_scores
from hpcai.results.training import credited, training_operations, training_row
from toy_training.record import ErrorsRaw, ErrorsRow

__all__ = ["build", "credited"]


def build(case: Case, measured: Measured, before: Before) -> ErrorsRow:
    """The entry of a test."""
    counted, found = training_operations(case, measured.raw), qualities(case, measured.raw)
    scores = training_scores(case, measured, counted, found, before)
    return training_row(ErrorsRow, case, measured, counted, found, scores, eligibility.IMAGES)


def qualities(case: Case, raw: ErrorsRaw) -> Qualities:
    """Shares of wrong samples."""
    samples, models, together, members = raw.dataset.validation_samples, case.groups, raw.ensemble, raw.members
    return Qualities(
        quality=1 - together.correct / samples,
        member_mean=members.sum / (models * samples),
        member_min=members.min / samples,
        member_max=members.max / samples,
        member_best=members.best / samples,
        out_of_bag=1 - together.bag_correct / together.bag_evaluated if together.bag_evaluated else None,
        disagreement=score.disagreement(together.agreeing_pairs, models, samples) if models > 1 else None,
        evaluated=samples,
    )
