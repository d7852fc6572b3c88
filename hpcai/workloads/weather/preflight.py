"""Preconditions of detectors: frames with boxes, and custom kernels of regions."""

from functools import partial

import numpy as np
import torch

from hpcai import networks
from hpcai.data import catalog, dataset_paths
from hpcai.data.weather.layout import UNUSED
from hpcai.data.weather.weather_dataset import Weather
from hpcai.errors import InputError
from hpcai.inputfile import Case
from hpcai.models.build import build
from hpcai.models.detection import regions
from hpcai.preflight.library_loading import custom_convolutions
from hpcai.preflight.preconditions import Piece, Preconditions


def _check(case: Case, dataset: Weather) -> None:
    if not _has_boxes(case, dataset):
        raise InputError(f"no validation frame of {dataset.source} has boxes; allowed: frames with boxes")


def _has_boxes(case: Case, dataset: Weather) -> bool:
    """Whether the dataset has boxes to detect; generated frames always have."""
    if not catalog.is_weather(case.dataset):
        return True
    return bool((dataset.validation.boxes(np.arange(len(dataset.validation)))[:, :, 4] != UNUSED).any())


def _refusal(case: Case, device: torch.device) -> str:
    return regions.refusal(device)


def _pieces(device: torch.device, compiled: bool, custom: bool) -> list[Piece]:
    """Train and evaluate a tiny detector, as only detectors need their kernels; compile custom kernels to train by."""
    if regions.refusal(device):  # reported where cases are checked
        return []
    return [partial(_detect, device), *(custom_convolutions(device) if compiled and custom else [])]


def _detect(device: torch.device) -> None:
    """A step and an evaluation on generated fields."""
    from hpcai.data.weather.generated import LEAST
    from hpcai.data.weather.weather_loader import Loader
    from hpcai.detections.detection_tables import used
    from hpcai.detections.weighted_box_fusion import fused

    data = catalog.open_weather(dataset_paths.GENERATED, 2, classes=2, resolution=LEAST)
    graph = networks.build("fasterrcnn8", data.shape[1:], data.shape[0], 2)
    module = build(graph, 0).to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    ((x, y, _),) = Loader(data, data.train, device, batch=2)([np.arange(2)])
    module(x, y).sum().backward()
    with torch.inference_mode():
        rows = used(module.eval()(x).cpu().numpy())
    fused([rows[0], rows[0]])


PRECONDITIONS = Preconditions(_check, _refusal, _pieces)
