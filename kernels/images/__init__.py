"""Pictures made by formula: cells of textured symbols, a code word for each class; integers only, so bytes are exact.

Every draw is Philox4x32-10 under the key `seed`; the words of its counter are (index low, index high, instance, tag).
"""

from dataclasses import dataclass
from enum import IntEnum

CHANNELS = 3
MOST_CELLS = 64  # of a picture: what a kernel keeps of one
CONTROLS = 4  # a side of the lattice of random bytes that a texture is interpolated from
TRAINING, VALIDATION, TRIALS = range(3)  # the splits; trials are those the ceiling is estimated from

# Brightness of a texture's byte t: offset + (t * gain >> 7), at most BRIGHTEST; noise adds 0 to 30.
LEAST_GAIN, GAINS, BRIGHTEST = 64, 48, 225


class Part(IntEnum):
    """What is drawn; the low byte of the tag. Index and instance of the counter stand beside each."""

    CODE = 0  # class, four cells
    TEXTURE = 1  # texture, channel
    LABEL = 2  # sample, 0
    VIEW = 3  # sample, 0
    CELL = 4  # sample, cell
    NOISE = 5  # sample, word of each quarter


@dataclass(frozen=True)
class Formula:
    """All that the pictures of a dataset follow from.

    seed: 64 bits; tag: the upper 16 bits of all tags; side: pixels; classes; symbols: of the alphabet; synonyms:
    textures of a symbol; grid: cells a side; shifts: whole-cell shifts a side, 1 to grid; corrupted, relabelled: 2^32
    times the probability that a cell's symbol, a label is replaced by a uniform draw.
    """

    seed: int
    tag: int
    side: int
    classes: int
    symbols: int
    synonyms: int
    grid: int
    shifts: int
    corrupted: int
    relabelled: int

    def __post_init__(self) -> None:
        if not 1 <= self.shifts <= self.grid or self.grid**2 > MOST_CELLS or self.side < self.grid:
            raise ValueError(f"{self}: allowed are 1 <= shifts <= grid <= side and at most {MOST_CELLS} cells")
        if not (0 <= self.seed < 1 << 64 and 0 <= self.corrupted < 1 << 32 and 0 <= self.relabelled < 1 << 32):
            raise ValueError(f"{self}: allowed are a seed of 64 bits and probabilities below 1")

    @property
    def cell(self) -> int:
        """Pixels a side of a cell; where the side is no multiple of it, the picture is cut from a larger one."""
        return -(-self.side // self.grid)

    @property
    def nbytes(self) -> int:
        """Bytes of a picture, and the bytes a kernel writes for it."""
        return CHANNELS * self.side**2

    @property
    def quarter(self) -> int:
        """32-bit words of noise in a quarter of a picture: as many blocks of Philox as a picture takes."""
        return -(-self.nbytes // 16)

    def tag_of(self, part: Part, split: int = 0) -> int:
        """The highest word of the counter."""
        return self.tag << 16 | split << 8 | part

    @property
    def key(self) -> tuple[int, int]:
        """The seed as two 32-bit words."""
        return self.seed & 0xFFFFFFFF, self.seed >> 32
