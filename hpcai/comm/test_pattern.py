"""Test pattern for collectives: numbers whose sums over ranks are exact in fp32 and known without communication."""

from collections.abc import Iterator

import torch

EXACT = 2**24  # whole numbers below it are exact in fp32
BLOCK = 65521  # a prime, so that what is misplaced by a power of two is seen
VARIANTS = 2  # patterns that successive calls alternate between
WEIGHTS = 7  # different factors of the ranks in a variant
SCRAMBLE, SHIFT = 40503, 21841  # stride between neighbours; offset from one variant to the next
MOST_ROWS = 64  # blocks written or compared at a time
MOST_ELEMENTS = 2**22  # elements compared at a time


def weight(rank: int, variant: int) -> int:
    """The factor of a rank in a sum; both variants together distinguish 49 ranks."""
    return 1 + rank // WEIGHTS**variant % WEIGHTS


def total_weight(ranks: int, variant: int) -> int:
    """The sum of the factors of ranks 0 to `ranks` - 1."""
    each = WEIGHTS**variant  # consecutive ranks of one factor
    whole, rest = divmod(ranks, WEIGHTS * each)
    full, more = divmod(rest, each)
    return each * (whole * WEIGHTS * (WEIGHTS + 1) // 2 + full * (full + 1) // 2) + more * (full + 1)


def values(ranks: int) -> int:
    """Number of different values in a rank's contribution for which the largest sum stays exact."""
    return max(1, min(BLOCK, (EXACT - 1) // max(total_weight(ranks, variant) for variant in range(VARIANTS))))


class Pattern:
    """One number for each position of a long vector: `factor` times 1 to `different`, stored as a few blocks.

    If `different` is BLOCK, two positions less than BLOCK^2 apart differ in at least one variant. Otherwise two
    positions agree in both variants with probability 1 / different^2, or 1 / different inside a block.
    """

    def __init__(self, variant: int, factor: int, different: int, device: torch.device) -> None:
        """`factor` x `different` must be below 2^24."""
        scrambled = torch.arange(BLOCK, device=device) * SCRAMBLE % BLOCK
        numbers = factor * (1 + scrambled.roll(variant * SHIFT) % different)
        self._numbers = numbers.to(torch.float32).tile(3)
        self._step = variant  # offset of each block relative to the one before

    def fill(self, vectors: torch.Tensor, start: int) -> None:
        """Write the pattern from position `start` on into every row of `vectors`."""
        for begin, numbers in self._pieces(start, vectors.shape[1]):
            vectors[:, begin : begin + numbers.numel()].unflatten(1, numbers.shape).copy_(numbers)

    def wrong(self, vectors: torch.Tensor, start: int) -> int:
        """Number of elements of all rows that differ from the pattern that begins at `start`. Waits for the device."""
        found = torch.zeros((), dtype=torch.int64, device=vectors.device)
        for begin, numbers in self._pieces(start, vectors.shape[1]):
            columns = vectors[:, begin : begin + numbers.numel()].unflatten(1, numbers.shape)
            for part in columns.split(max(1, MOST_ELEMENTS // numbers.numel())):
                found += torch.count_nonzero(part != numbers)
        return int(found)

    def _pieces(self, start: int, count: int) -> Iterator[tuple[int, torch.Tensor]]:
        """Pairs of position and numbers: pieces of whole blocks (rows, columns), or of one incomplete block."""
        begin = 0
        while begin < count:
            block, column = divmod(start + begin, BLOCK)
            left = count - begin
            whole = column == 0 and left >= BLOCK
            rows, width = (min(left // BLOCK, MOST_ROWS), BLOCK) if whole else (1, min(BLOCK - column, left))
            first = block % BLOCK * self._step + column
            yield begin, self._numbers.as_strided((rows, width), (self._step, 1), first)
            begin += rows * width
