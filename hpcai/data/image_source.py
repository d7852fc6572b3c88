"""The source of images: the datasets of `hpcai.data.catalog` that are no climate fields."""

import numpy as np

from hpcai.data import catalog, dataset_paths
from hpcai.data.source import DataSource

SIDE = 8  # pixels


def _load(spec: str) -> None:
    if spec == dataset_paths.GENERATED:
        made = catalog.open_dataset(spec, 2, classes=2, resolution=SIDE).train
        made.images(np.arange(1)), made.labels(np.arange(1))


IMAGES = DataSource(catalog.open_for, catalog.open_for, load=_load)
