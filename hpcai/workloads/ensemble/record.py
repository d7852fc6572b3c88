"""Records of `[ensemble]`: measurements of classifiers, and HPL's row."""

from typing import Annotated, Literal

from hpcai.record.dataset import ImageValidation
from hpcai.record.record import Count, Record, about
from hpcai.record.training import Members, StoppedTraining, TrainingRaw, TrainingRow


class Ensemble(Record, kw_only=True):
    """The ensemble's results on the validation set, and out of bag on the training set."""

    correct: Annotated[
        Count, about("validation samples classified correctly by the mean of the models' softmax outputs")
    ]
    agreeing_pairs: Annotated[
        Count, about("pairs of models that predict the same class, summed over the validation samples")
    ]
    bag_evaluated: Annotated[Count, about("training samples that some model did not train on")]
    bag_correct: Annotated[Count, about("samples of these classified correctly by those models together")]


class EnsembleRaw(TrainingRaw, kw_only=True):
    """Raw measurements of an ensemble of classifiers."""

    curve: Annotated[tuple[ImageValidation, ...], about("validations of the first model")]
    members: Annotated[Members[int], about("correct validation samples of the models one by one")]
    ensemble: Annotated[Ensemble, about("the models together")]


class EnsembleRow(TrainingRow, kw_only=True):
    """A test of `[ensemble]`."""

    workload: Literal["ensemble"] = "ensemble"
    raw: Annotated[EnsembleRaw, about("raw measurements")]


class StoppedEnsemble(StoppedTraining, kw_only=True):
    """A test of `[ensemble]` in which the run was broken off."""

    curve: Annotated[tuple[ImageValidation, ...], about("validations of the first model")]


ENTRY, STOPPED = EnsembleRow, StoppedEnsemble
