"""The source of images: the datasets of `hpcai.data.catalog` that are no climate fields."""

from typing import Any

import numpy as np

from hpcai.data import catalog, dataset_paths
from hpcai.data.source import DataSource, Settings
from hpcai.frozen.fashion_mnist import FashionMnist
from hpcai.frozen.generated_images import GeneratedImages
from hpcai.frozen.packed_images import PackedImages
from hpcai.frozen.samples import Source

SIDE = 8  # pixels


def _load(spec: str) -> None:
    if spec == dataset_paths.GENERATED:
        made = catalog.open_dataset(spec, 2, classes=2, resolution=SIDE).train
        made.images(np.arange(1)), made.labels(np.arange(1))


def _again(settings: Settings, dataset: Any) -> Source:
    """Reads the images of a case anew; `dataset` is what was opened."""
    spec, samples, resolution = settings["DATASET"], settings["SAMPLES"], settings["RESOLUTION"]
    if spec == dataset_paths.GENERATED:
        return GeneratedImages(settings["CLASSES"], resolution, settings["SEED"])
    path = dataset_paths.locate(spec)
    packed = (path / dataset_paths.INDEX).is_file()
    return PackedImages(path, samples, resolution) if packed else FashionMnist(path, samples, resolution)


IMAGES = DataSource(catalog.open_for, catalog.open_for, load=_load, again=_again)
