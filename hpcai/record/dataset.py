"""Records of the data that a test trains on: description, staging, validation curve."""

from typing import Annotated

from msgspec import Meta

from hpcai.formulas.score import mean_precision
from hpcai.record.record import Count, Name, NonNegative, Positive, PositiveSeconds, Record, Seconds, Sha256, about


class Dataset(Record, kw_only=True):
    """Description of a dataset, the same on every rank."""

    name: Annotated[Name, about("name of the dataset")]
    fingerprint: Annotated[Sha256, about("SHA-256 of the data; of generated data, of its formula and first samples")]
    shape: Annotated[
        tuple[Positive, ...], Meta(min_length=3, max_length=3), about("channels, height and width of a sample")
    ]
    classes: Annotated[Positive, about("number of classes")]
    training_samples: Annotated[Positive, about("samples of the training set")]
    validation_samples: Annotated[Positive, about("samples of the validation set")]
    ceiling: Annotated[float | None, about("generated data only: expected quality of the best possible model")] = None
    ceiling_error: Annotated[float | None, about("standard error of the ceiling's estimate")] = None


class Staging(Record, kw_only=True):
    """Copies of the data to the nodes."""

    bytes: Annotated[Count, about("bytes copied, all nodes", unit="B")]
    reused_bytes: Annotated[Count, about("bytes present from an earlier run, all nodes", unit="B")]
    nodes: Annotated[Count, about("nodes with a copy")]
    seconds: Annotated[PositiveSeconds, about("time of the copy", unit="s")]
    kept: Annotated[bool, about("whether the copy stays after the run")]


class Validation(Record, kw_only=True):
    """One validation of the first model."""

    epoch: Annotated[Count, about("epochs completed")]
    seconds: Annotated[Seconds, about("training and validation time of the model until then", unit="s")]
    loss: Annotated[NonNegative | None, about("mean training loss of the epoch; null where it is not finite")]
    counted: Annotated[Count, about("validation samples evaluated")]
    fingerprint: Annotated[
        Count, about("fingerprint of the samples evaluated: sum of their scrambled indices, modulo 2^63")
    ]

    def quality(self, samples: int) -> float:
        """The model's quality by this validation on a set of so many samples."""
        raise NotImplementedError


class ImageValidation(Validation, kw_only=True):
    """One validation of a classifier."""

    correct: Annotated[Count, about("samples classified correctly")]

    def quality(self, samples: int) -> float:
        """Top-1: the share of correct samples."""
        return self.correct / samples


ClassPrecision = tuple[float | None, ...]  # average precision of each class; null where there is no true box


class BoxValidation(Validation, kw_only=True):
    """One validation of a detector."""

    average_precision: Annotated[ClassPrecision, about("average precision of each class at an overlap of 0.5")]

    def quality(self, samples: int) -> float:
        """Mean average precision of the classes that have true boxes."""
        return mean_precision(self.average_precision)
