"""Generated images on one core, in loops that the compiler vectorises.

The code runs without the interpreter's lock and starts no threads, so a loading thread can generate images during
training. Numba widens sums and products of 32-bit words, so every word is cast back.
"""

import sys

import numpy as np
from numba import njit

from ..cpu.compiled import compiled
from . import BRIGHTEST, CHANNELS, GAINS, LEAST_GAIN, Formula, Part
from .reference import Integers, Pixels, textures

_SWAPPED = sys.byteorder == "big"  # noise is read byte by byte, least significant first


@njit(inline="always")  # a call would prevent the vectorisation of the loops around it
def philox(c0, c1, c2, c3, k0, k1):  # type: ignore[no-untyped-def]
    """Philox4x32-10 of one counter; all words are uint32."""
    for _ in range(10):
        p0, p1 = np.uint64(c0) * np.uint64(0xD2511F53), np.uint64(c2) * np.uint64(0xCD9E8D57)
        high0, high1 = np.uint32(p0 >> np.uint64(32)), np.uint32(p1 >> np.uint64(32))
        c0, c1 = np.uint32(high1 ^ c1 ^ k0), np.uint32(p1)
        c2, c3 = np.uint32(high0 ^ c3 ^ k1), np.uint32(p0)
        k0, k1 = np.uint32(k0 + np.uint32(0x9E3779B9)), np.uint32(k1 + np.uint32(0xBB67AE85))
    return c0, c1, c2, c3


@compiled
def draw(key, tag, index, instance):  # type: ignore[no-untyped-def]
    """The four words of one instance of one index."""
    low, high = np.uint32(index & 0xFFFFFFFF), np.uint32(index >> 32)
    return philox(low, high, np.uint32(instance), np.uint32(tag), key[0], key[1])


@compiled
def below(bound, word):  # type: ignore[no-untyped-def]
    """A 32-bit draw as an integer in [0, bound)."""
    return np.int64(np.uint64(word) * np.uint64(bound) >> np.uint64(32))


@compiled
def draw_code(key, tag, symbols, number, code):  # type: ignore[no-untyped-def]
    """Fill `code`, int64[cells], with the code word of a class."""
    for block in range((len(code) + 3) // 4):
        words = draw(key, tag, number, block)
        for word in range(min(4, len(code) - 4 * block)):
            code[4 * block + word] = below(symbols, words[word])


@compiled
def draw_cells(key, tag, symbols, synonyms, corrupted, index, cells):  # type: ignore[no-untyped-def]
    """Turn `cells`, int64[cells], from the code word of the sample's class into texture numbers."""
    for cell in range(len(cells)):
        words = draw(key, tag, index, cell)
        if words[0] < corrupted:
            cells[cell] = below(symbols, words[1])
        cells[cell] = cells[cell] * synonyms + below(synonyms, words[2])


@compiled
def _copy(target, source):  # type: ignore[no-untyped-def]
    for k in range(len(target)):
        target[k] = source[k]


@compiled
def _lay(out, cells, table, grid, down, right):  # type: ignore[no-untyped-def]
    """Copy the textures of the cells into the image, shifted cyclically."""
    channels, side, cell = out.shape[0], out.shape[1], table.shape[2]
    for y in range(side):
        v = (y + down) % (grid * cell)
        first, row = grid * (v // cell), v % cell
        for channel in range(channels):
            line = out[channel, y]
            x, column, inside = 0, right // cell, right % cell
            while x < side:
                length = min(cell - inside, side - x)
                texture = table[cells[first + column], channel, row]
                _copy(line[x : x + length], texture[inside : inside + length])
                x, column, inside = x + length, (column + 1) % grid, 0


@compiled
def _draw_noise(key, tag, index, w0, w1, w2, w3):  # type: ignore[no-untyped-def]
    """The words of the blocks 0, 1, …, each of the four in its own array, uint32[quarter]."""
    low, high = np.uint32(index & 0xFFFFFFFF), np.uint32(index >> 32)
    for j in range(len(w0)):
        w0[j], w1[j], w2[j], w3[j] = philox(low, high, np.uint32(j), np.uint32(tag), key[0], key[1])
        if _SWAPPED:
            w0[j], w1[j], w2[j], w3[j] = _swapped(w0[j]), _swapped(w1[j]), _swapped(w2[j]), _swapped(w3[j])


@compiled
def _swapped(word):  # type: ignore[no-untyped-def]
    """The word with its bytes in reverse order."""
    odd = (word & np.uint32(0xFF00FF)) << 8 | (word & np.uint32(0xFF00FF00)) >> 8
    return np.uint32(np.uint32(odd) << 16 | np.uint32(odd) >> 16)


@compiled
def _light(flat, noise, gain, offset):  # type: ignore[no-untyped-def]
    """Apply brightness and noise to every byte; nothing overflows, so nothing is clipped."""
    for k in range(len(flat)):
        lit = np.uint16(flat[k]) * np.uint16(gain) >> 7
        flat[k] = np.uint8(offset + lit + (noise[k] & 15) + (noise[k] >> 4))


@compiled
def _fill(out, indices, table, key, tags, numbers):  # type: ignore[no-untyped-def]
    """Fill out, uint8[n, 3, side, side], with the samples at the indices."""
    classes, symbols, synonyms, grid, shifts, corrupted = numbers
    code_tag, view_tag, cell_tag, noise_tag = tags
    cell = table.shape[2]
    cells = np.empty(grid * grid, np.int64)
    noise = np.empty((4, (out[0].size + 15) // 16), np.uint32)
    for n in range(len(indices)):
        index = indices[n]
        view = draw(key, view_tag, index, 0)
        draw_code(key, code_tag, symbols, index % classes, cells)
        draw_cells(key, cell_tag, symbols, synonyms, corrupted, index, cells)
        _lay(out[n], cells, table, grid, below(shifts * cell, view[0]), below(shifts * cell, view[1]))
        _draw_noise(key, noise_tag, index, noise[0], noise[1], noise[2], noise[3])
        gain = LEAST_GAIN + below(GAINS, view[2])
        offset = below(BRIGHTEST + 1 - (255 * gain >> 7), view[3])
        _light(out[n].reshape(-1), noise.reshape(-1).view(np.uint8), gain, offset)


@compiled
def _label(indices, classes, relabelled, key, tag, labels):  # type: ignore[no-untyped-def]
    for n in range(len(indices)):
        words = draw(key, tag, indices[n], 0)
        labels[n] = below(classes, words[1]) if words[0] < relabelled else indices[n] % classes


def key_of(formula: Formula) -> tuple[np.uint32, np.uint32]:
    """The seed in the form that `draw` takes."""
    return np.uint32(formula.key[0]), np.uint32(formula.key[1])


class Maker:
    """Images and labels of one split; safe to call from several threads."""

    def __init__(self, formula: Formula, split: int) -> None:
        self._formula, self._split = formula, split
        self._table = textures(formula)
        f = formula
        self._numbers = (f.classes, f.symbols, f.synonyms, f.grid, f.shifts, f.corrupted)
        parts = ((Part.CODE, 0), (Part.VIEW, split), (Part.CELL, split), (Part.NOISE, split))
        self._tags = tuple(f.tag_of(*part) for part in parts)

    def images(self, indices: Integers) -> Pixels:
        """Images at the indices (int64, not negative), uint8[n, 3, side, side]."""
        out = np.empty((len(indices), CHANNELS, self._formula.side, self._formula.side), np.uint8)
        _fill(out, np.ascontiguousarray(indices), self._table, key_of(self._formula), self._tags, self._numbers)
        return out

    def labels(self, indices: Integers) -> Integers:
        """Labels at the indices (int64, not negative), int64[n]."""
        f, labels = self._formula, np.empty(len(indices), np.int64)
        tag = f.tag_of(Part.LABEL, self._split)
        _label(np.ascontiguousarray(indices), f.classes, f.relabelled, key_of(f), tag, labels)
        return labels
