"""Weights of grouped convolutions in the order of their micro-kernels: block, tap, vector, sum, lane.

In sum r, lane l is the weight of channel l for the filter r lanes further on in its group, counted cyclically.
"""

from typing import Any

from ...cpu.compiled import compiled
from ...cpu.load_store import bytes_of, read, write
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
def weight_address(
    layer: Any, w: Any, across: Any, backwards: Any, channel: Any, tap: Any, turn: Any
) -> Any:
    """Address of the weight of a channel and a tap for the filter `turn` further on in its group."""
    own = channel % layer.group
    filter_ = (own + turn) % layer.group
    if backwards:
        own, filter_ = filter_, own
    down, right = divmod(tap, across)
    return w.address + down * w.down + right * w.right + (channel - channel % layer.group + filter_) * w.filter + own * w.channel
