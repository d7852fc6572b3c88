"""Weights of grouped convolutions in the order of their micro-kernels: block, tap, vector, sum, lane.

In sum r, lane l is the weight of channel l for the filter r lanes further on in its group, counted cyclically.
"""

from typing import Any

from ...cpu.compiled import compiled
from ...cpu.load_store import bytes_of, read, transpose_block, write
from ...cpu.packing import LINE, Matrix, pack_slivers


def packed_nbytes(layer: Any) -> int:
    """Bytes of all weights, whole cache lines."""
    blocks = -(-layer.nbytes // layer.block)
    return -(-blocks * layer.taps * layer.group * layer.block // 64) * 64


@compiled
def pack(like: Any, layer: Any, w: Any, across: Any, backwards: Any, target: Any) -> None:
    """Pack the weights, `across` taps a row; `backwards`: of channels by filters, for the input gradient."""
    each = layer.taps * layer.group * layer.block
    for begin in range(0, layer.nbytes, layer.block):
        channel = min(begin, layer.nbytes - layer.block) // bytes_of(like)
        if layer.group == 1:
            _pack_channels(like, layer, w, across, channel, target)
        else:
            _pack_groups(like, layer, w, across, backwards, channel, target)
        target += each


@compiled
def _pack_channels(like: Any, layer: Any, w: Any, across: Any, channel: Any, target: Any) -> None:
    """A block of a depth-wise layer, all taps at once where they are a uniform distance apart."""
    together = layer.taps if w.down == across * w.right else across
    width, from_ = layer.block // bytes_of(like), w.address + channel * w.filter
    for first in range(0, layer.taps, together):
        matrix = Matrix(from_ + first // across * w.down, together, width, w.right, w.filter)
        pack_slivers(like, target + first * layer.block, width, matrix, together)


@compiled
def _pack_groups(like: Any, layer: Any, w: Any, across: Any, backwards: Any, channel: Any, target: Any) -> None:
    """A block of groups of several channels, number by number."""
    for tap in range(layer.taps):
        for turn in range(layer.group):
            for lane in range(layer.block // bytes_of(like)):
                write(read(like, weight_address(layer, w, across, backwards, channel + lane, tap, turn)), target)
                target += bytes_of(like)


@compiled
def unpack(like: Any, layer: Any, w: Any, across: Any, source: Any) -> None:
    """Store the packed gradient of the weights; taps are contiguous in w."""
    each, lanes = layer.taps * layer.group * layer.block, LINE // bytes_of(like)
    for begin in range(0, layer.nbytes, layer.block):
        channel = min(begin, layer.nbytes - layer.block) // bytes_of(like)
        if layer.group == 1:
            _unpack_channels(like, layer, w, channel, source)
        else:
            _unpack_groups(like, layer, w, across, channel, layer.group == lanes, source)
        source += each


@compiled
def _unpack_channels(like: Any, layer: Any, w: Any, channel: Any, source: Any) -> None:
    """A block of a depth-wise layer: square blocks of taps and channels are transposed in registers."""
    size = bytes_of(like)
    lanes = LINE // size
    whole, target = layer.taps // lanes * lanes, w.address + channel * w.filter
    for place in range(0, layer.block // size, lanes):
        for tap in range(0, whole, lanes):
            to, come = target + place * w.filter + tap * size, source + tap * layer.block + place * size
            transpose_block(like, to, w.filter, come, layer.block)
    for place in range(layer.block // size):
        for tap in range(whole, layer.taps):
            write(read(like, source + tap * layer.block + place * size), target + place * w.filter + tap * size)


@compiled
def _unpack_groups(like: Any, layer: Any, w: Any, across: Any, channel: Any, whole: Any, source: Any) -> None:
    """A block of groups of several channels; `whole`: a group fills the vector, and a sum is that of a channel."""
    for tap in range(layer.taps):
        for turn in range(layer.group):
            for lane in range(layer.block // bytes_of(like)):
                own, by = (turn, (lane - turn) % layer.group) if whole else (lane, turn)
                write(read(like, source), weight_address(layer, w, across, False, channel + own, tap, by))
                source += bytes_of(like)


@compiled
def weight_address(
    layer: Any, w: Any, across: Any, backwards: Any, channel: Any, tap: Any, turn: Any
) -> Any:
    """Address of the weight of a channel and a tap for the filter `turn` further on in its group."""
    own = channel % layer.group
    filter_ = (own + turn) % layer.group
    if backwards:
        own, filter_ = filter_, own
    down, right = divmod(tap, across)
    first = channel - channel % layer.group
    return w.address + down * w.down + right * w.right + (first + filter_) * w.filter + own * w.channel
