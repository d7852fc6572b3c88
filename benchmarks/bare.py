"""What a user would write instead: residual networks and training loops in plain PyTorch, with nothing of hpcai."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional


def resnet20(classes: int = 10) -> nn.Module:
    """For small pictures: three stages of three blocks of two 3 x 3 convolutions (He et al., 2016, section 4.2)."""
    stem = [nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True)]
    blocks = [Basic(i, o, s) for i, o, s in _places([16, 32, 64], [3, 3, 3], 16, 1)]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes))


def resnet50(classes: int = 1000) -> nn.Module:
    """For large pictures: four stages of bottlenecks, the stride on the 3 x 3 convolution."""
    stem = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    blocks = [Bottleneck(i, o, s) for i, o, s in _places([64, 128, 256, 512], [3, 4, 6, 3], 64, 4)]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, classes))


def _places(widths: list[int], counts: list[int], channels: int, expansion: int) -> Iterator[tuple[int, int, int]]:
    for width, count in zip(widths, counts, strict=True):
        for index in range(count):
            yield channels, width, 2 if index == 0 and width != widths[0] else 1
            channels = expansion * width


class Basic(nn.Module):
    """Two 3 x 3 convolutions beside a shortcut."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.shortcut = _shortcut(inputs, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = functional.relu(self.norm1(self.conv1(x)), inplace=True)
        out = self.norm2(self.conv2(out))
        out += self.shortcut(x)
        return functional.relu(out, inplace=True)


class Bottleneck(nn.Module):
    """1 x 1, 3 x 3 and 1 x 1 convolutions beside a shortcut."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.norm3 = nn.BatchNorm2d(4 * width)
        self.shortcut = _shortcut(inputs, 4 * width, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = functional.relu(self.norm1(self.conv1(x)), inplace=True)
        out = functional.relu(self.norm2(self.conv2(out)), inplace=True)
        out = self.norm3(self.conv3(out))
        out += self.shortcut(x)
        return functional.relu(out, inplace=True)


def _shortcut(inputs: int, outputs: int, stride: int) -> nn.Module:
    if inputs == outputs and stride == 1:
        return nn.Identity()
    return nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))


def loop(model: nn.Module, batch: int, side: int, classes: int, layout: torch.memory_format) -> Callable[[int], None]:
    """A training loop on one batch that is in memory as it is needed; the result runs a number of steps."""
    model = model.to(memory_format=layout)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4, fused=True)
    x = torch.randn(batch, 3, side, side).contiguous(memory_format=layout)
    y = torch.randint(0, classes, (batch,))

    def train(steps: int) -> None:
        for _ in range(steps):
            loss = functional.cross_entropy(model(x), y, label_smoothing=0.1)
            loss.backward()
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)

    return train
