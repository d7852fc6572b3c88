"""Known answers of the random number generators: both implementations give them, or the run is refused.

The vectors of Philox4x32-10 are those of Random123 (kat_vectors; Salmon, Moraes, Dror, Shaw, SC11). The answers of
order, bootstraps, crops and transforms were computed once, when both implementations agreed on millions of draws.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcai.data import bootstrap, order, philox, random_crops
from hpcai.data.weather import augmentation
from hpcai.errors import HpcaiError
from hpcai.frozen import augmentation as frozen_augmentation
from hpcai.frozen import bootstrap as frozen_bootstrap
from hpcai.frozen import order as frozen_order
from hpcai.frozen import philox as frozen_philox

# Counter, key, answer: zeros, ones, digits of pi.
PHILOX = (
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
)
SEED, EPOCH, MODEL, N = 7, 3, 1, 1000
PLACES = np.array([0, 1, 2, 500, 999])
ORDER = [332, 677, 633, 567, 232]
MULTINOMIAL = [481, 98, 281, 512, 42]
POISSON_SIZE, POISSON = 1048, [1, 5, 5, 500]  # of the first four places
NUMBERS = np.array([0, 999])
CROPS = [[45, 69, 179, 175, 1], [63, 58, 136, 172, 0]]
TRANSFORMS = [[129, 0], [65, 1]]


def check(crops: bool) -> None:
    """HpcaiError if a generator gives another answer; crops, whose table takes a moment, only if asked for."""
    answers = [*_of_philox(), *_of_training(), *_of_frozen(), *(_of_crops() if crops else ())]
    for name, found, expected in answers:
        if found != expected:
            raise HpcaiError(f"the generator of {name} gives {found}; allowed: {expected}, its known answer")


def _of_philox() -> list[tuple[str, Any, Any]]:
    kinds: tuple[tuple[str, Callable[..., Any], Any], ...] = (
        ("philox4x32-10", philox.philox4x32, np.uint64),
        ("philox4x32-10, second implementation", frozen_philox.block, np.uint32),
    )
    return [
        (name, _block(block, counter, key, word), _words(answer))
        for name, block, word in kinds
        for counter, key, answer in PHILOX
    ]


def _block(block: Callable[..., Any], counter: str, key: str, word: Any) -> list[int]:
    found = block(tuple(np.array([value], word) for value in _words(counter)), tuple(_words(key)))
    return [int(value[0]) for value in found]


def _words(text: str) -> list[int]:
    return [int(word, 16) for word in text.split()]


def _of_training() -> list[tuple[str, Any, Any]]:
    """The generators that a training uses."""
    poisson = bootstrap.Poisson(N, SEED, MODEL)
    return [
        ("epoch orders", order.EpochOrder(N, SEED, EPOCH)(PLACES).tolist(), ORDER),
        ("multinomial bootstraps", bootstrap.Multinomial(N, SEED, MODEL).draw(PLACES).tolist(), MULTINOMIAL),
        ("Poisson bootstraps", (poisson.size, poisson.draw(PLACES[:4]).tolist()), (POISSON_SIZE, POISSON)),
        ("transforms", augmentation.drawn_transforms(SEED, MODEL, NUMBERS, 144).tolist(), TRANSFORMS),
    ]


def _of_frozen() -> list[tuple[str, Any, Any]]:
    """The second implementations."""
    (_, multinomial), (size, poisson) = (
        frozen_bootstrap.bag(kind, N, SEED, MODEL, 2) for kind in ("multinomial", "poisson")
    )
    found = [
        ("epoch orders", frozen_order.ordered(PLACES, N, SEED, EPOCH).tolist(), ORDER),
        ("multinomial bootstraps", multinomial(PLACES).tolist(), MULTINOMIAL),
        ("Poisson bootstraps", (size, poisson(PLACES[:4]).tolist()), (POISSON_SIZE, POISSON)),
        ("transforms", frozen_augmentation.transforms(144, SEED, MODEL, NUMBERS).tolist(), TRANSFORMS),
    ]
    return [(f"{name}, second implementation", answer, expected) for name, answer, expected in found]


def _of_crops() -> list[tuple[str, Any, Any]]:
    found = random_crops.Crops(256, 224).training(SEED, MODEL, NUMBERS)
    again = frozen_augmentation.crops(256, SEED, MODEL, NUMBERS)
    return [("crops", found.tolist(), CROPS), ("crops, second implementation", again.tolist(), CROPS)]
