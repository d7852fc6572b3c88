"""Pyramid levels: their anchors, and the assignment of regions to levels."""

from collections.abc import Sequence
from math import log2

import torch
from torch import Tensor

from hpcai.models.detection.boxes import area

Pair = tuple[int, int]


class Levels:
    """Levels (height, width), finest first, of an image (height, width), and the shapes of their anchors.

    An anchor has the area of a square of `scale` pixels of its level, and a height of `ratio` widths.
    """

    def __init__(self, image: Pair, sizes: Sequence[Pair], ratios: Sequence[float], scale: float) -> None:
        self._sizes, self._ratios, self._scale = sizes, ratios, scale
        self.strides = [_stride(image, size) for size in sizes]
        self._anchors: dict[torch.device, list[Tensor]] = {}

    def anchors(self, device: torch.device) -> list[Tensor]:
        """Anchors of each level, float32[A, 4]: by rows, columns and ratios, the last index running fastest. Cached.

        They are centred on the pixels, and may extend beyond the image.
        """
        if device not in self._anchors:
            with torch.inference_mode(False):
                made = [self._of(size, step) for size, step in zip(self._sizes, self.strides, strict=True)]
                self._anchors[device] = [own.to(device) for own in made]
        return self._anchors[device]

    def of_regions(self, regions: Tensor, cells: float, levels: int) -> Tensor:
        """Level of each region, int32[...]: the first in which it covers less than `cells` pixels a side.

        regions: float32[..., 4]. Lin et al., Feature Pyramid Networks, 2017, eq. 1; the last one takes what is larger.
        """
        side = area(regions).sqrt() / (cells * self.strides[0])
        return (side.clamp(min=0.5).log2().floor() + 1).clamp(0, levels - 1).int()

    def _of(self, size: Pair, step: int) -> Tensor:
        side = self._scale * step
        shapes = torch.tensor([(side * ratio**0.5 / 2, side / ratio**0.5 / 2) for ratio in self._ratios])
        rows, columns = (step * (torch.arange(count) + 0.5) for count in size)
        centres = torch.stack(torch.meshgrid(rows, columns, indexing="ij"), -1).reshape(-1, 1, 2)
        return torch.cat([centres - shapes, centres + shapes], -1).reshape(-1, 4)


def _stride(image: Pair, size: Pair) -> int:
    """Pixels of the image per pixel of a level: a power of 2."""
    along = 0 if image[0] >= image[1] else 1
    return int(2 ** round(log2(image[along] / size[along])))
