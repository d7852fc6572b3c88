"""Records of `[weather]`: measurements of detectors, and HPL's row."""

from typing import Annotated, Literal

from hpcai.record.dataset import BoxValidation, ClassPrecision
from hpcai.record.record import Count, Record, Seconds, Sha256, about
from hpcai.record.sample_loading import Loading
from hpcai.record.training import Members, StoppedTraining, TrainingRaw, TrainingRow
from hpcai.record.training_scores import TrainingScores


class Detections(Record, kw_only=True):
    """The ensemble's results on the validation frames, and out of bag on the training frames."""

    precision: Annotated[ClassPrecision, about("average precision of each class at an overlap of 0.5")]
    loose_precision: Annotated[ClassPrecision, about("average precision of each class at an overlap of 0.1")]
    true_boxes: Annotated[tuple[Count, ...], about("true boxes of each class in the validation frames")]
    agreement: Annotated[float, about("agreement of pairs of models, summed over pairs and frames")]
    bag_evaluated: Annotated[Count, about("training frames that some model did not train on")]
    bag_precision: Annotated[
        ClassPrecision, about("average precision of each class on these frames, by those models together")
    ]
    sha256: Annotated[Sha256, about("SHA-256 of the detections and true boxes in the file of detections")]


class FieldLoading(Loading, kw_only=True):
    """Loading of the training frames in the timed region, summed over all ranks."""

    bytes_read: Annotated[Count, about("bytes read from files", unit="B")]
    read_seconds: Annotated[Seconds, about("time of reading, summed over threads", unit="s")]
    decompress_seconds: Annotated[Seconds, about("time of decompressing, summed over threads", unit="s")]


class WeatherRaw(TrainingRaw, kw_only=True):
    """Raw measurements of an ensemble of detectors."""

    curve: Annotated[tuple[BoxValidation, ...], about("validations of the first model")]
    members: Annotated[Members[float], about("mean average precision of the models one by one")]
    ensemble: Annotated[Detections, about("the models together")]
    loading: Annotated[FieldLoading, about("loading of the training frames")]


UNREAD = "n/a, nothing read"


class LoadingScores(Record, kw_only=True):
    """Scores of loading; reading and decompressing are summed over the threads of a rank."""

    read_rate: Annotated[
        float | None,
        about(
            "loading.bytes_read / Time",
            unit="B/s",
            label="fields read in training, GB/s",
            scale=1e9,
            absent=UNREAD,
        ),
    ]
    loading_share: Annotated[float, about("loading.load_seconds / (P x Q x Time)", label="share of training, loading")]
    reading_share: Annotated[
        float | None,
        about("loading.read_seconds / (P x Q x Time)", label="share of training, reading", absent=UNREAD),
    ]
    decompressing_share: Annotated[
        float | None,
        about("loading.decompress_seconds / (P x Q x Time)", label="share of training, decompressing", absent=UNREAD),
    ]


class WeatherScores(TrainingScores, kw_only=True):
    """Scores of an ensemble of detectors."""

    loose_precision: Annotated[
        float, about("mean average precision at an overlap of 0.1", label="mAP at an overlap of 0.1")
    ]
    class_precision: Annotated[ClassPrecision, about("average precision of each class at an overlap of 0.5")]
    loading: Annotated[LoadingScores, about("loading of the training frames")]


class WeatherRow(TrainingRow, kw_only=True):
    """A test of `[weather]`."""

    workload: Literal["weather"] = "weather"
    scores: Annotated[WeatherScores, about("scores")]
    raw: Annotated[WeatherRaw, about("raw measurements")]


class StoppedWeather(StoppedTraining, kw_only=True):
    """A test of `[weather]` in which the run was broken off."""

    curve: Annotated[tuple[BoxValidation, ...], about("validations of the first model")]


ENTRY, STOPPED = WeatherRow, StoppedWeather
