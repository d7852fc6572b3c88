"""Taps and channels that are multiplied at a time: so many that a sliver of their weights stays near the processor."""

from typing import Any

from ...cpu.compiled import compiled
from .geometry import Chunk

TAPS = 16  # at most


@compiled
def first_chunk(work: Any, steps: Any) -> Any:
    """Those to begin with: at most so many products of a pixel."""
    return _chunk_at(work, 0, 0, steps)


@compiled
def next_chunk(work: Any, chunk: Any, steps: Any) -> Any:
    """Those after it; without taps if there are no more."""
    if chunk.channel + chunk.channels < work.source.channels * work.joined:
        return _chunk_at(work, chunk.tap, chunk.channel + chunk.channels, steps)
    return _chunk_at(work, chunk.tap + chunk.taps, 0, steps)


@compiled
def _chunk_at(work: Any, tap: Any, channel: Any, steps: Any) -> Any:
    """From a tap and a channel on."""
    taps, channels = work.vertical.taps * (work.horizontal.taps // work.joined), work.source.channels * work.joined
    most = min(max(1, steps // channels), TAPS)
    return Chunk(tap, min(_evenly(taps, most), taps - tap), channel, min(_evenly(channels, steps), channels - channel))


@compiled
def _evenly(count: Any, most: Any) -> Any:
    """How many of `count` there are in each part, but perhaps the last, where parts have at most so many."""
    parts = max(1, (count + most - 1) // most)
    return (count + parts - 1) // parts
