"""Networks by name, as layer graphs: pure data for counting, estimating, editing and building."""

from collections.abc import Sequence
from difflib import get_close_matches

from hpcai.errors import InputError
from hpcai.inputfile import Case
from hpcai.networks.decoder import DECODERS, decoder
from hpcai.networks.faster_rcnn import DETECTORS, faster_rcnn
from hpcai.networks.graph import Graph
from hpcai.networks.layers import Pair
from hpcai.networks.resnet import ARCHITECTURES, VARIANTS, resnet

__all__ = ["DECODING", "DETECTING", "NAMES", "VARIANTS", "build", "for_data"]

NAMES = tuple(ARCHITECTURES)  # networks that classify
DETECTING = tuple(DETECTORS)  # networks that detect objects
DECODING = tuple(DECODERS)  # language models


def build(name: str, image: Pair, channels: int, classes: int, variant: str = "v1.5") -> Graph:
    """Graph of the named network for images (height, width) of `channels` channels.

    A detector does not count the background among the classes; a language model has sequences of so many places as
    images of one row and channel, and symbols as classes. InputError for a name or variant that does not exist, and
    for sizes below 1. The same on every rank.
    """
    _check_choice("network", name, (*NAMES, *DETECTING, *DECODING))
    _check_choice("variant", variant, VARIANTS)
    for what, value in (("image height", image[0]), ("image width", image[1]), ("channels", channels)):
        if value < 1:
            raise InputError(f"{what} must be at least 1, not {value}")
    least = 1 if name in DETECTORS else 2
    if classes < least:
        raise InputError(f"classes must be at least {least}, not {classes}")
    if name in DECODERS:
        return decoder(DECODERS[name], image[1], classes)
    if name in DETECTORS:
        return faster_rcnn(DETECTORS[name], image, channels, classes, variant)
    return resnet(ARCHITECTURES[name], image, channels, classes, variant)


def for_data(case: Case, shape: Sequence[int], classes: int) -> Graph:
    """Graph that a case of the input trains on images of `shape` (C, H, W); the same on every rank."""
    as_they_are = case.network in (*DETECTING, *DECODING)
    side = 0 if as_they_are else case.resolution
    image = (side, side) if side else (shape[1], shape[2])
    return build(case.network, image, shape[0], classes, case.variant)


def _check_choice(what: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        near = get_close_matches(value, allowed, n=1)
        guess = f"; did you mean {near[0]}?" if near else ""
        raise InputError(f"unknown {what} {value!r}; allowed are {', '.join(allowed)}{guess}")
