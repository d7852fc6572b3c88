"""Records of `[ensemble]`: measurements of classifiers, and HPL's row."""

from typing import Annotated, Literal

from hpcai.record.dataset import ImageValidation
from hpcai.record.record import Count, Digits16, Record, Sha256, about
from hpcai.record.training import Members, StoppedTraining, TrainingRaw, TrainingRow


class Recount(Record, kw_only=True):
    """Figures of the ensemble by a second implementation, from what predictions-I.h5 keeps of samples."""

    entropy: Annotated[Digits16, about("what the samples kept are drawn from, 16 digits")]
    sha256: Annotated[Sha256, about("SHA-256 of the tables in predictions-I.h5")]
    samples: Annotated[Count, about("validation samples kept: all, or those drawn")]
    correct: Annotated[Count, about("of these, classified correctly by all models together")]
    agreeing_pairs: Annotated[Count, about("pairs of models that predict the same class, summed over these")]
    members_sum: Annotated[Count, about("of these, classified correctly, summed over the models")]
    members_min: Annotated[Count, about("the same by the worst model")]
    members_max: Annotated[Count, about("the same by the best model")]
    bag_samples: Annotated[Count, about("training samples kept; 0 with one model")]
    bag_evaluated: Annotated[Count, about("of these, evaluated by some model")]
    bag_correct: Annotated[Count, about("of these, classified correctly")]
    voted: Annotated[Count, about("samples of both splits of which all models' outputs are kept")]
    wrong_votes: Annotated[Count, about("classes that are not those of the vote by these outputs")]


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
    recount: Annotated[Recount | None, about("the same, counted anew; null in older results")] = None


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
