"""Entry of an ensemble of detectors from its raw measurements: qualities, loading, checks, scores."""

from msgspec import structs

from hpcai.detections.agreement import pairs
from hpcai.formulas.official_rules import WEATHER
from hpcai.formulas.score import mean_precision
from hpcai.inputfile import Case
from hpcai.record.training_scores import TrainingScores
from hpcai.results.measured import Before, Measured
from hpcai.results.qualities import Qualities
from hpcai.results.scores import training_scores
from hpcai.results.training import credited, training_operations, training_row
from hpcai.workloads.weather.record import LoadingScores, WeatherRaw, WeatherRow, WeatherScores

__all__ = ["RULES", "build", "credited"]

RULES = WEATHER


def build(case: Case, measured: Measured, before: Before) -> WeatherRow:
    """The entry of a test."""
    raw: WeatherRaw = measured.raw
    counted, found = training_operations(case, raw), qualities(case, raw)
    scores = weather_scores(case, raw, training_scores(case, measured, counted, found, before))
    return training_row(WeatherRow, case, measured, counted, found, scores, RULES)


def weather_scores(case: Case, raw: WeatherRaw, scores: TrainingScores) -> WeatherScores:
    """The scores of a training, with those of detectors only."""
    return WeatherScores(
        **structs.asdict(scores),
        loose_precision=mean_precision(raw.ensemble.loose_precision),
        class_precision=raw.ensemble.precision,
        loading=loading_scores(case, raw),
    )


def qualities(case: Case, raw: WeatherRaw) -> Qualities:
    """Mean average precision at an overlap of 0.5; for the ceiling, each true box counts as a binomial trial."""
    models, together = case.groups, raw.ensemble
    return Qualities(
        quality=mean_precision(together.precision),
        member_mean=raw.members.sum / models,
        member_min=raw.members.min,
        member_max=raw.members.max,
        member_best=raw.members.best,
        out_of_bag=mean_precision(together.bag_precision) if together.bag_evaluated else None,
        disagreement=disagreement(models, raw) if models > 1 else None,
        evaluated=sum(together.true_boxes),
    )


def disagreement(models: int, raw: WeatherRaw) -> float:
    """1 - agreement of two models on a frame, mean over the frames and pairs of models with neighbouring numbers."""
    return 1.0 - raw.ensemble.agreement / (pairs(models) * raw.dataset.validation_samples)


def loading_scores(case: Case, raw: WeatherRaw) -> LoadingScores:
    """Read rate of all ranks in training, and shares of the time that a rank's threads spent loading.

    Reading and decompressing are summed over the threads of a rank, so they may exceed 1.
    """
    found, training = raw.loading, raw.phases.training
    all_ranks = case.groups * case.degree * training
    reads = found.bytes_read > 0
    return LoadingScores(
        read_rate=found.bytes_read / training if reads else None,
        loading_share=found.load_seconds / all_ranks,
        reading_share=found.read_seconds / all_ranks if reads else None,
        decompressing_share=found.decompress_seconds / all_ranks if reads else None,
    )
