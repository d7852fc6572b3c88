"""Entry of an ensemble of classifiers from its raw measurements: qualities, checks, scores."""

from math import comb

from msgspec import structs

from hpcai.formulas import score
from hpcai.formulas.official_rules import IMAGES
from hpcai.formulas.recount import confirmed
from hpcai.frozen.votes import Ensemble
from hpcai.inputfile import Case
from hpcai.record.dataset import Dataset
from hpcai.record.published_figures import PublishedFigures
from hpcai.results.measured import Before, Measured
from hpcai.results.qualities import Qualities
from hpcai.results.scores import training_scores
from hpcai.results.training import credited, training_operations, training_row
from hpcai.workloads.ensemble import QUALITY
from hpcai.workloads.ensemble.record import EnsembleRaw, EnsembleRow

__all__ = ["RULES", "build", "credited"]

RULES = IMAGES
ONE_IN = 1000  # samples whose class rounding may exchange between two passes


def build(case: Case, measured: Measured, before: Before) -> EnsembleRow:
    """The entry of a test."""
    raw: EnsembleRaw = measured.raw
    counted, found = training_operations(case, raw), qualities(case, raw)
    scores = training_scores(case, measured, counted, found, before)
    scores = structs.replace(scores, published=published(case, raw, found))
    return training_row(EnsembleRow, case, measured, counted, found, scores, RULES)


def published(case: Case, raw: EnsembleRaw, found: Qualities) -> PublishedFigures | None:
    """Figures by the papers' constant; None for other networks than theirs."""
    if case.network != "resnet50" or tuple(raw.dataset.shape[1:]) != (224, 224):
        return None
    rate = score.published_flops(raw.work.samples, raw.phases.training)
    valid = score.valid_flops(rate, QUALITY.share_of_target(found.quality, raw.target), score.PUBLISHED_PENALTY)
    return PublishedFigures(flops=rate, valid_flops=valid)


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
        unconfirmed=unconfirmed(case, raw),
    )


def ensemble_of(case: Case, dataset: Dataset) -> Ensemble:
    """What is evaluated in a case."""
    return Ensemble(case.groups, dataset.classes, dataset.validation_samples, dataset.training_samples)


def unconfirmed(case: Case, raw: EnsembleRaw) -> int:
    """Figures of the ensemble that are counted otherwise from the kept predictions, and classes other than by the vote.

    The models' own validations are another pass, in which rounding may exchange classes that are close. The worst and
    the best model are compared where all samples are kept.
    """
    found, models, samples = raw.ensemble.recount, case.groups, raw.dataset.validation_samples
    if found is None:
        return 0
    together, members, near = raw.ensemble, raw.members, 1 + samples // ONE_IN
    kept, bag = (found.samples, samples), (found.bag_samples, raw.dataset.training_samples)
    held = [
        confirmed(found.correct, together.correct, *kept),
        confirmed(found.agreeing_pairs, together.agreeing_pairs, *kept, scale=max(1, comb(models, 2))),
        confirmed(found.members_sum, members.sum, *kept, scale=models, near=near * models),
        found.samples < samples or abs(found.members_min - members.min) <= near,
        found.samples < samples or abs(found.members_max - members.max) <= near,
        models == 1 or confirmed(found.bag_evaluated, together.bag_evaluated, *bag),
        models == 1 or confirmed(found.bag_correct, together.bag_correct, *bag),
    ]
    return held.count(False) + found.wrong_votes
