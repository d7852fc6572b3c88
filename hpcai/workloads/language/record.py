"""Records of `[language]`: measurements of language models, and HPL's row."""

from typing import Annotated, Literal

from hpcai.record.dataset import Validation
from hpcai.record.record import Count, NonNegative, Positive, Record, about
from hpcai.record.training import Members, StoppedTraining, TrainingRaw, TrainingRow
from hpcai.record.training_scores import TrainingScores

Bits = Annotated[NonNegative, about("-log2 of the probability of all predicted bytes, summed", unit="bit")]
Predicted = Annotated[Positive, about("bytes predicted, each counted once")]
Differences = Annotated[
    float | None,
    about("bits of a sequence - those by its source, summed; null where the source is not known", unit="bit"),
]
Squares = Annotated[NonNegative | None, about("the sum of their squares", unit="bit^2")]


class TextValidation(Validation, kw_only=True):
    """One validation of a language model."""

    bits: Bits
    predicted: Predicted
    differences: Differences
    difference_squares: Squares

    def quality(self, samples: int) -> float:
        """Bits per byte."""
        return self.bits / self.predicted


class Evaluated(Record, kw_only=True):
    """The ensemble's results on a split: its probability of a byte is the mean of its models' probabilities."""

    bits: Bits
    predicted: Predicted
    differences: Differences
    difference_squares: Squares
    sequences: Annotated[Positive, about("sequences evaluated")]
    agreeing_pairs: Annotated[Count, about("pairs of models with the same most likely byte, over the predicted bytes")]


class LanguageEnsemble(Record, kw_only=True):
    """The ensemble's results, and out of bag on the training sequences."""

    validation: Annotated[Evaluated, about("on the validation sequences")]
    test: Annotated[Evaluated | None, about("files only: on the test sequences, by which the ensemble is judged")]
    bag_evaluated: Annotated[Count, about("training sequences that some model did not train on")]
    bag_bits: Annotated[NonNegative, about("-log2 of the probability of their bytes by those models", unit="bit")]
    bag_predicted: Annotated[Count, about("bytes that these sequences predict")]


class LanguageRaw(TrainingRaw, kw_only=True):
    """Raw measurements of an ensemble of language models."""

    curve: Annotated[tuple[TextValidation, ...], about("validations of the first model")]
    members: Annotated[Members[float], about("bits per byte of the models one by one")]
    below: Annotated[
        NonNegative | None,
        about(
            "the most paired standard errors by which a model was below the source's entropy in a validation; null "
            "where the source is not known"
        ),
    ]
    ensemble: Annotated[LanguageEnsemble, about("the models together")]


class LanguageScores(TrainingScores, kw_only=True):
    """Scores of an ensemble of language models."""

    tokens_per_second: Annotated[
        float, about("N x bytes of a sequence / Time", unit="1/s", label="tokens/s", csv=True)
    ]
    excess: Annotated[
        float | None,
        about("quality / entropy of the source - 1", label="bits above the entropy, share", absent="n/a, not known"),
    ]


class LanguageRow(TrainingRow, kw_only=True):
    """A test of `[language]`."""

    workload: Literal["language"] = "language"
    scores: Annotated[LanguageScores, about("scores")]
    raw: Annotated[LanguageRaw, about("raw measurements")]


class StoppedLanguage(StoppedTraining, kw_only=True):
    """A test of `[language]` in which the run was broken off."""

    curve: Annotated[tuple[TextValidation, ...], about("validations of the first model")]


ENTRY, STOPPED = LanguageRow, StoppedLanguage
