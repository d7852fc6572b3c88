"""Two sums of each channel, by each thread: those of a block of pixels in their own type, of all blocks in fp64.

So the rounding of a sum does not grow with the number of pixels. Sums of a thread lie one after the other: the block's,
rows as in a table of channelwise.py; the totals; and the bytes of pixels that the block has.
"""

from typing import Any, NamedTuple

from .compiled import compiled
from .load_store import bytes_of, clear, read, write

DOUBLE = 8  # bytes
BLOCK = 2**15  # bytes of pixels of a block


class ChannelSums(NamedTuple):
    """Address of the first thread's sums, and bytes from row to row of a block, and from thread to thread."""

    address: int
    apart: int
    nbytes: int


@compiled
def block_of(sums: Any, thread: Any) -> Any:
    """Address of a thread's sums of a block."""
    return sums.address + thread * sums.nbytes


@compiled
def clear_sums(sums: Any, thread: Any) -> None:
    """Set the sums of a thread to 0."""
    block = block_of(sums, thread)
    for place in range(sums.nbytes // DOUBLE):
        clear(0, block + place * DOUBLE)


@compiled
def add_block(like: Any, sums: Any, thread: Any) -> None:
    """Add the sums of a block to the totals of a thread; the block is empty then."""
    size, block = bytes_of(like), block_of(sums, thread)
    totals, numbers = block + 2 * sums.apart, 2 * sums.apart // size
    for place in range(numbers):
        to, come = totals + place * DOUBLE, block + place * size
        write(read(0.0, to) + read(like, come), to)
        clear(like, come)
    clear(0, totals + numbers * DOUBLE)


@compiled
def count_pixels(like: Any, sums: Any, thread: Any, nbytes: Any) -> None:
    """Note that so many bytes of pixels have been added to a block, and begin another one when it is full."""
    at = block_of(sums, thread) + 2 * sums.apart + 2 * sums.apart // bytes_of(like) * DOUBLE
    count = read(0, at) + nbytes
    write(count, at)
    if count >= BLOCK:
        add_block(like, sums, thread)


@compiled
def total(sums: Any, threads: Any, place: Any) -> Any:
    """A sum over all threads, none of which has begun a block: of channel `place`; second sums follow the first."""
    added = 0.0
    for thread in range(threads):
        added += read(0.0, block_of(sums, thread) + 2 * sums.apart + place * DOUBLE)
    return added
