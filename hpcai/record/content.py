"""Records of what arrived at the networks, compared with the source of the data and with the input."""

from typing import Annotated

from hpcai.record.preflight import Worst
from hpcai.record.record import Count, Record, Sha256, about

ONE_IN = 1000  # validation images of packed sets may be training images: their sources have a few equal ones


class DataContent(Record, kw_only=True):
    """Content of both splits of a data set, as it was opened."""

    training_sha256: Annotated[
        Sha256 | None, about("Fashion-MNIST only: SHA-256 of pixels and labels of the training split in its files")
    ] = None
    validation_sha256: Annotated[Sha256 | None, about("the same of the validation split")] = None
    unknown_splits: Annotated[
        Count | None, about("splits of other content than the published one; null where none is published")
    ] = None
    shared: Annotated[
        Count | None, about("validation samples that are training samples as well; null where that is not compared")
    ] = None
    shared_allowed: Annotated[
        Count, about(f"how many may be: 0; of packed images 1 in {ONE_IN}, equal images of their source")
    ] = 0


class Delivered(Record, kw_only=True):
    """Samples as they arrived at the networks, and the recipe of audited steps, against second implementations."""

    samples: Annotated[Count, about("samples compared with their source: of steps, validations and the ensemble")]
    deviation: Annotated[Worst, about("largest deviation of a value / its bound; labels and boxes are exact")]
    positions: Annotated[Count, about("positions of epochs whose sample was compared")]
    misplaced: Annotated[Count, about("of these, with another sample than seed, model and epoch of the input give")]
    recipe_steps: Annotated[Count, about("steps whose recipe was compared, all models")]
    recipe: Annotated[
        Worst, about("largest relative deviation of rate, hyper-parameters, smoothing or batch from the input's")
    ]
    validations: Annotated[Count, about("validations whose content was summed, with that of the ensemble, all models")]
    differing_validations: Annotated[Count, about("of these, with another content than the first, all ranks")]
    data: Annotated[DataContent, about("content of both splits")]
    recounted_validations: Annotated[
        Count | None,
        about("classifiers only: validations whose correct samples were counted anew; null in older results"),
    ] = None
    miscounted_validations: Annotated[Count | None, about("of these, with another number than was reported")] = None


WhatArrived = Annotated[
    Delivered | None, about("what arrived at the networks against second implementations; null in older results")
]
