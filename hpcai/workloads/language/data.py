"""Dataset of the tests of `[language]`: sequences of bytes."""

from typing import Any

import numpy as np

from hpcai.data import catalog, dataset_paths
from hpcai.data.source import DataSource, Settings
from hpcai.frozen.samples import Source
from hpcai.frozen.texts import GeneratedTexts, TextFiles


def _load(spec: str) -> None:
    """Compile the generator."""
    if spec == dataset_paths.GENERATED:
        from hpcai.data.text import chain

        chain.sequences(0, 1, np.arange(1), 1)


def _again(settings: Settings, dataset: Any) -> Source:
    """Reads the sequences of a case anew; `dataset` is what was opened."""
    spec, places = settings["DATASET"], settings["RESOLUTION"]
    if spec == dataset_paths.GENERATED:
        return GeneratedTexts(places, settings["SEED"])
    return TextFiles(dataset_paths.locate(spec), places)


SOURCE = DataSource(catalog.open_text_for, catalog.open_text_for, load=_load, again=_again)
