"""Weights of grouped convolutions in the order of their micro-kernels: block, tap, vector, sum, lane.

In sum r, lane l is the weight of channel l for the filter r lanes further on in its group, counted cyclically. Where a
group fills vectors, the order is block, tap, channel, filter; of the input gradient block, tap, filter, channel.
"""

from typing import Any

from ...cpu.compiled import compiled
from ...cpu.load_store import bytes_of, read, transpose_block, write
from ...cpu.packing import LINE, Matrix, pack_slivers
from .grouped_plan import is_whole


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
        elif is_whole(like, layer):
            _pack_whole(like, layer, w, across, backwards, channel, target)
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
def _pack_whole(like: Any, layer: Any, w: Any, across: Any, backwards: Any, channel: Any, target: Any) -> None:
    """A block that is a group: for each tap rows of all filters or, backwards, of all channels."""
    row, column = (w.filter, w.channel) if backwards else (w.channel, w.filter)
    for tap in range(layer.taps):
        down, right = divmod(tap, across)
        from_ = w.address + down * w.down + right * w.right + channel * w.filter
        pack_slivers(like, target, layer.group, Matrix(from_, layer.group, layer.group, row, column), layer.group)
        target += layer.group * layer.block


@compiled
def unpack(like: Any, layer: Any, w: Any, across: Any, source: Any) -> None:
    """Store the packed gradient of the weights; taps are contiguous in w."""
    each = layer.taps * layer.group * layer.block
    for begin in range(0, layer.nbytes, layer.block):
        channel = min(begin, layer.nbytes - layer.block) // bytes_of(like)
        if layer.group == 1:
            _unpack_channels(like, layer, w, channel, source)
        elif is_whole(like, layer):
            _unpack_whole(like, layer, w, across, channel, source)
        else:
            _unpack_groups(like, layer, w, across, channel, source)
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
def _unpack_groups(like: Any, layer: Any, w: Any, across: Any, channel: Any, source: Any) -> None:
    """A block of groups of several channels, number by number."""
    for tap in range(layer.taps):
        for turn in range(layer.group):
            for lane in range(layer.block // bytes_of(like)):
                write(read(like, source), weight_address(layer, w, across, False, channel + lane, tap, turn))
                source += bytes_of(like)


@compiled
def _unpack_whole(like: Any, layer: Any, w: Any, across: Any, channel: Any, source: Any) -> None:
    """A block that is a group: square blocks of channels and filters are transposed in registers."""
    lanes = LINE // bytes_of(like)
    for tap in range(layer.taps):
        down, right = divmod(tap, across)
        to = w.address + down * w.down + right * w.right + channel * w.filter
        for own in range(0, layer.group, lanes):
            for filter_ in range(0, layer.group, lanes):
                come = source + own * layer.block + filter_ * bytes_of(like)
                transpose_block(like, to + filter_ * w.filter + own * w.channel, w.filter, come, layer.block)
        source += layer.group * layer.block


@compiled
def weight_address(layer: Any, w: Any, across: Any, backwards: Any, channel: Any, tap: Any, turn: Any) -> Any:
    """Address of the weight of a channel and a tap for the filter `turn` further on in its group."""
    own = channel % layer.group
    filter_ = (own + turn) % layer.group
    if backwards:
        own, filter_ = filter_, own
    down, right = divmod(tap, across)
    first = channel - channel % layer.group
    return w.address + down * w.down + right * w.right + (first + filter_) * w.filter + own * w.channel
