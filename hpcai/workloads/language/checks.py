"""Entry of an ensemble of language models from its raw measurements: qualities, checks, scores."""

from msgspec import structs

from hpcai.formulas import score
from hpcai.formulas.official_rules import LANGUAGE
from hpcai.inputfile import Case
from hpcai.record.training_scores import TrainingScores
from hpcai.results.measured import Before, Measured
from hpcai.results.qualities import Qualities
from hpcai.results.scores import training_scores
from hpcai.results.training import credited, training_operations, training_row
from hpcai.workloads.language.record import Evaluated, LanguageRaw, LanguageRow, LanguageScores, TextValidation

__all__ = ["RULES", "below", "build", "credited"]

RULES = LANGUAGE


def build(case: Case, measured: Measured, before: Before) -> LanguageRow:
    """The entry of a test."""
    raw: LanguageRaw = measured.raw
    counted, found = training_operations(case, raw), qualities(case, raw)
    scores = language_scores(raw, training_scores(case, measured, counted, found, before))
    return training_row(LanguageRow, case, measured, counted, found, scores, RULES)


def language_scores(raw: LanguageRaw, scores: TrainingScores) -> LanguageScores:
    """The scores of a training, with those of language models only."""
    entropy = raw.dataset.ceiling
    return LanguageScores(
        **structs.asdict(scores),
        tokens_per_second=scores.samples_per_second * raw.dataset.shape[2],
        excess=scores.quality / entropy - 1 if entropy else None,
    )


def judged(raw: LanguageRaw) -> Evaluated:
    """By what the ensemble is judged: the test sequences, or the validation's where there are none."""
    return raw.ensemble.test or raw.ensemble.validation


def qualities(case: Case, raw: LanguageRaw) -> Qualities:
    """Bits per byte; the ceiling is the entropy of the source, with the differences sequence by sequence."""
    found, models, bag = judged(raw), case.groups, raw.ensemble
    return Qualities(
        quality=found.bits / found.predicted,
        member_mean=raw.members.sum / models,
        member_min=raw.members.min,
        member_max=raw.members.max,
        member_best=raw.members.best,
        out_of_bag=bag.bag_bits / bag.bag_predicted if bag.bag_predicted else None,
        disagreement=score.disagreement(found.agreeing_pairs, models, found.predicted) if models > 1 else None,
        evaluated=found.sequences,
        beyond=None if raw.below is None else max(raw.below, below(found, found.sequences) or 0.0),
    )


def below(found: Evaluated | TextValidation, sequences: int) -> float | None:
    """Paired standard errors by which something is below the source's entropy; None where that is not known."""
    if found.differences is None or found.difference_squares is None:
        return None
    return score.paired_errors(found.differences, found.difference_squares, sequences)
