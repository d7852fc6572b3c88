"""K-blocking of a convolution: taps and channels multiplied at a time, so that a sliver of their weights stays in L1.
"""

from typing import Any

from ...cpu.compiled import compiled
from .geometry import KBlock

TAPS = 16  # at most, in a block


@compiled
def first_k_block(work: Any, steps: Any) -> Any:
    """The first block, of at most `steps` products a pixel."""
    return _k_block_at(work, 0, 0, steps)


@compiled
def next_k_block(work: Any, k_block: Any, steps: Any) -> Any:
    """The block after `k_block`; without taps at the end."""
    if k_block.channel + k_block.channels < work.source.channels * work.merged:
        return _k_block_at(work, k_block.tap, k_block.channel + k_block.channels, steps)
    return _k_block_at(work, k_block.tap + k_block.taps, 0, steps)


@compiled
def _k_block_at(work: Any, tap: Any, channel: Any, steps: Any) -> Any:
    """The block that starts at a tap and a channel."""
    taps, channels = work.vertical.taps * (work.horizontal.taps // work.merged), work.source.channels * work.merged
    most = min(max(1, steps // channels), TAPS)
    return KBlock(tap, min(_evenly(taps, most), taps - tap), channel, min(_evenly(channels, steps), channels - channel))


@compiled
def _evenly(count: Any, most: Any) -> Any:
    """Size of equal parts of `count`, the last one perhaps smaller, where a part has at most `most`."""
    parts = max(1, (count + most - 1) // most)
    return (count + parts - 1) // parts
