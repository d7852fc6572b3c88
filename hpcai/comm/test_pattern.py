"""Numbers whose sums over ranks are exact in fp32, and known without communication, wherever and whosever they are."""

from collections.abc import Iterator

import torch

EXACT = 2**24  # whole numbers below it are exact in fp32
BLOCK = 65521  # a prime, so that what is misplaced by a power of two is seen
VARIANTS = 2
WEIGHTS = 7  # different factors of the ranks in a turn
SCRAMBLE, SHIFT = 40503, 21841  # between neighbours, and of all numbers from one turn to the next
MOST_ROWS = 64  # blocks that are written or compared at a time
MOST_ELEMENTS = 2**22  # that are compared at a time


def weight(rank: int, turn: int) -> int:
    """The factor of a rank in a sum; both turns together tell 49 ranks apart."""
    return 1 + rank // WEIGHTS**turn % WEIGHTS


def total_weight(ranks: int, turn: int) -> int:
    """The sum of the factors of ranks 0 to `ranks` - 1."""
    each = WEIGHTS**turn  # consecutive ranks of one factor
    whole, rest = divmod(ranks, WEIGHTS * each)
    full, more = divmod(rest, each)
    return each * (whole * WEIGHTS * (WEIGHTS + 1) // 2 + full * (full + 1) // 2) + more * (full + 1)


def values(ranks: int) -> int:
    """How many different numbers a rank's contribution may have, so that the largest sum stays exact."""
    return max(1, min(BLOCK, (EXACT - 1) // max(total_weight(ranks, turn) for turn in range(VARIANTS))))


class Pattern:
    """One number for each position of a long vector: `factor` times 1 to `different`, in memory of a few blocks.

    Where `different` is BLOCK, two positions that are less than BLOCK^2 apart have other numbers in one turn at least;
    else two of them are alike in both with a probability of 1 / different^2, or 1 / different inside a block.
    """

    def __init__(self, turn: int, factor: int, different: int, device: torch.device) -> None:
        """`factor` x `different` must be below 2^24."""
        scrambled = torch.arange(BLOCK, device=device) * SCRAMBLE % BLOCK
        numbers = factor * (1 + scrambled.roll(turn * SHIFT) % different)
        self._numbers = numbers.to(torch.float32).tile(3)
        self._step = turn  # by which each block begins later than the one before

    def fill(self, vectors: torch.Tensor, start: int) -> None:
        """Write the numbers of the positions from `start` on into every row of `vectors`."""
        for place, numbers in self._pieces(start, vectors.shape[1]):
            vectors[:, place : place + numbers.numel()].unflatten(1, numbers.shape).copy_(numbers)

    def wrong(self, vectors: torch.Tensor, start: int) -> int:
        """Elements of all rows that are not the numbers of the positions from `start` on. Waits for the device."""
        found = torch.zeros((), dtype=torch.int64, device=vectors.device)
        for place, numbers in self._pieces(start, vectors.shape[1]):
            columns = vectors[:, place : place + numbers.numel()].unflatten(1, numbers.shape)
            for part in columns.split(max(1, MOST_ELEMENTS // numbers.numel())):
                found += torch.count_nonzero(part != numbers)
        return int(found)

    def _pieces(self, start: int, count: int) -> Iterator[tuple[int, torch.Tensor]]:
        """The numbers in pieces of whole blocks (rows, columns), or of one that is not whole; and where they begin."""
        place = 0
        while place < count:
            block, column = divmod(start + place, BLOCK)
            left = count - place
            whole = column == 0 and left >= BLOCK
            rows, width = (min(left // BLOCK, MOST_ROWS), BLOCK) if whole else (1, min(BLOCK - column, left))
            first = block % BLOCK * self._step + column
            yield place, self._numbers.as_strided((rows, width), (self._step, 1), first)
            place += rows * width
