"""Entry of an ensemble of classifiers from its raw measurements: qualities, checks, scores."""

from hpcai.formulas import eligibility, score
from hpcai.inputfile import Case
from hpcai.results.measured import Before, Measured
from hpcai.results.qualities import Qualities
from hpcai.results.scores import training_scores
from hpcai.results.training import credited, training_operations, training_row
from hpcai.workloads.ensemble.record import EnsembleRaw, EnsembleRow

__all__ = ["build", "credited"]


def build(case: Case, measured: Measured, before: Before) -> EnsembleRow:
    """The entry of a test."""
    raw: EnsembleRaw = measured.raw
    counted, found = training_operations(case, raw), qualities(case, raw)
    scores = training_scores(case, measured, counted, found, before)
    return training_row(EnsembleRow, case, measured, counted, found, scores, eligibility.IMAGES)


def qualities(case: Case, raw: EnsembleRaw) -> Qualities:
    """Top-1: the share of samples classified correctly."""
    samples, models, together = raw.dataset.validation_samples, case.groups, raw.ensemble
    return Qualities(
        quality=together.correct / samples,
        member_mean=raw.members.sum / (models * samples),
        member_min=raw.members.min / samples,
        member_max=raw.members.max / samples,
        member_best=raw.members.best / samples,
        out_of_bag=together.bag_correct / together.bag_evaluated if together.bag_evaluated else None,
        disagreement=score.disagreement(together.agreeing_pairs, models, samples) if models > 1 else None,
        evaluated=samples,
    )
