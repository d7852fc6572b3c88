"""Generated images in NumPy, one by one. Frozen: made to be obvious, not fast."""

import numpy as np
import numpy.typing as npt

from . import BRIGHTEST, CHANNELS, CONTROLS, GAINS, LEAST_GAIN, Formula, Part

Pixels = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def philox(key: tuple[int, int], counter: npt.NDArray[np.uint64]) -> Words:
    """Philox4x32-10: four 32-bit words for each counter of four, uint64[n, 4], word 0 least significant.

    Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC11, section 3.3.
    """
    c0, c1, c2, c3 = counter.T
    for r in range(10):
        k0, k1 = np.uint64((key[0] + r * 0x9E3779B9) & 0xFFFFFFFF), np.uint64((key[1] + r * 0xBB67AE85) & 0xFFFFFFFF)
        p0, p1 = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c1, c2, c3 = p1 >> _HALF ^ c1 ^ k0, p1 & _LOW, p0 >> _HALF ^ c3 ^ k1, p0 & _LOW
    return np.stack([c0, c1, c2, c3], axis=1)


def draw(formula: Formula, part: Part, split: int, index: int, instances: int) -> Words:
    """The words of the instances 0, 1, … of one index: uint64[instances, 4]."""
    counter = np.empty((instances, 4), np.uint64)
    counter[:, 0], counter[:, 1] = index & 0xFFFFFFFF, index >> 32
    counter[:, 2], counter[:, 3] = np.arange(instances), formula.tag_of(part, split)
    return philox(formula.key, counter)


def below(bound: int, words: Words) -> Integers:
    """32-bit draws as integers in [0, bound)."""
    return (words * np.uint64(bound) >> _HALF).astype(np.int64)


def textures(formula: Formula) -> Pixels:
    """The textures, uint8[symbols * synonyms, 3, cell, cell]: random bytes on a lattice, interpolated bilinearly."""
    count, cell = formula.symbols * formula.synonyms, formula.cell
    words = np.stack([draw(formula, Part.TEXTURE, 0, texture, CHANNELS) for texture in range(count)])
    lattice = np.stack([words >> np.uint64(8 * k) & np.uint64(255) for k in range(4)], axis=-1).astype(np.int32)
    lattice = lattice.reshape(count, CHANNELS, CONTROLS, CONTROLS)
    place, weight = np.divmod((2 * np.arange(cell, dtype=np.int32) + 1) * (CONTROLS - 1), 2 * cell)
    rows = lattice[:, :, place] * (2 * cell - weight)[:, None] + lattice[:, :, place + 1] * weight[:, None]
    both = rows[..., place] * (2 * cell - weight) + rows[..., place + 1] * weight
    return (both // (2 * cell) ** 2).astype(np.uint8, order="C")


def label(formula: Formula, split: int, index: int) -> int:
    """The label of a sample: its class, index modulo classes, or a uniform draw instead."""
    words = draw(formula, Part.LABEL, split, index, 1)[0]
    if words[0] < formula.relabelled:
        return int(below(formula.classes, words[1]))
    return index % formula.classes


def code(formula: Formula, number: int) -> Integers:
    """The code word of a class, int64[grid * grid]."""
    cells = formula.grid**2
    return below(formula.symbols, draw(formula, Part.CODE, 0, number, -(-cells // 4)).reshape(-1)[:cells])


def symbols(formula: Formula, split: int, index: int) -> Integers:
    """The symbols of a sample, int64[grid * grid]: the code word of its class, some cells replaced."""
    words = draw(formula, Part.CELL, split, index, formula.grid**2)
    replaced = words[:, 0] < formula.corrupted
    return np.where(replaced, below(formula.symbols, words[:, 1]), code(formula, index % formula.classes))


def image(formula: Formula, split: int, index: int, table: Pixels) -> Pixels:
    """One sample, uint8[3, side, side]; table: the textures."""
    clean = _view(formula, split, index, _canvas(formula, split, index, table))
    return (clean + _noise(formula, split, index)).astype(np.uint8)


def _canvas(formula: Formula, split: int, index: int, table: Pixels) -> Pixels:
    synonyms = below(formula.synonyms, draw(formula, Part.CELL, split, index, formula.grid**2)[:, 2])
    tiles = table[symbols(formula, split, index) * formula.synonyms + synonyms]
    tiles = tiles.reshape(formula.grid, formula.grid, CHANNELS, formula.cell, formula.cell)
    size = formula.grid * formula.cell
    return tiles.transpose(2, 0, 3, 1, 4).reshape(CHANNELS, size, size)


def _view(formula: Formula, split: int, index: int, canvas: Pixels) -> Integers:
    """The canvas, shifted cyclically, cut to the size of the image, with brightness applied."""
    words = draw(formula, Part.VIEW, split, index, 1)[0]
    down, right = below(formula.shifts * formula.cell, words[:2])
    gain = LEAST_GAIN + below(GAINS, words[2])
    offset = below(int(BRIGHTEST + 1 - (255 * gain >> 7)), words[3])
    shifted = np.roll(canvas, (-down, -right), (1, 2))[:, : formula.side, : formula.side]
    return offset + (shifted.astype(np.int64) * gain >> 7)


def _noise(formula: Formula, split: int, index: int) -> Integers:
    """Sum of two half bytes for every byte of the image; word w of the blocks makes quarter w."""
    words = draw(formula, Part.NOISE, split, index, formula.quarter).T.reshape(-1, 1)
    draws = (words >> np.array([0, 8, 16, 24], np.uint64) & np.uint64(255)).reshape(-1)[: formula.nbytes]
    pixels = (draws & np.uint64(15)) + (draws >> np.uint64(4))
    return pixels.astype(np.int64).reshape(CHANNELS, formula.side, formula.side)
