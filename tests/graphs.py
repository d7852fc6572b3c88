"""Random networks, a small one, and images for them, for tests of all code that traverses a graph."""

from random import Random

import torch

from hpcai.networks import build
from hpcai.networks.graph import Graph, Layer
from hpcai.networks.layers import Add, BatchNorm, Conv, Dense, GlobalPool, Input, MaxPool, Op, Relu, Shape, Softmax


class _Drawing:
    def __init__(self, random: Random) -> None:
        self.random = random
        image = (random.randint(1, 4), random.randint(9, 20), random.randint(9, 20))
        self.layers = [Layer("image", Input(image))]
        self.shapes: dict[str, Shape] = {"image": image}

    def add(self, op: Op, *inputs: str) -> str:
        name = f"layer{len(self.layers)}"
        self.shapes[name] = op.shape(*(self.shapes[source] for source in inputs))
        self.layers.append(Layer(name, op, inputs))
        return name

    def pair(self, low: int, high: int) -> tuple[int, int]:
        return self.random.randint(low, high), self.random.randint(low, high)

    def conv(self, source: Shape, grouped: bool) -> Conv:
        divisors = [groups for groups in (2, 3, 4) if source[0] % groups == 0] if grouped else []
        groups = self.random.choice([1, *divisors])
        kernel, stride, padding, dilation = self.pair(1, 3), self.pair(1, 2), self.pair(0, 2), self.pair(1, 2)
        return Conv(
            groups * self.random.randint(1, 4), kernel, stride, padding, dilation, groups, self.random.random() < 0.3
        )

    def layer(self, grouped: bool) -> None:
        maps = list(self.shapes)
        source = self.random.choice([maps[0], maps[-1], *maps])
        shape = self.shapes[source]
        same = [name for name in maps if self.shapes[name] == shape]
        match self.random.choice(["conv", "conv", "conv", "norm", "relu", "relu", "add", "pool"]):
            case "conv":
                self.add(self.conv(shape, grouped), source)
            case "norm":
                self.add(BatchNorm(), source)
            case "relu":
                self.add(Relu(), source)
            case "add":
                self.add(Add(), *self.random.choices(same, k=self.random.randint(2, 3)))
            case "pool":
                self.add(MaxPool((2, 3), self.pair(1, 2), (1, 1)), source)

    def head(self) -> None:
        """Connects every layer without a reader to a dense layer; their sum is the network's output."""
        read = {name for layer in self.layers for name in layer.inputs}
        loose = [name for name in self.shapes if name not in read]
        branches = [self.add(Dense(6, bias=False), self.add(GlobalPool(), name)) for name in loose]
        whole = self.add(Add(), *branches) if len(branches) > 1 else branches[0]
        self.add(Softmax(), self.add(Dense(5), self.add(Relu(), whole)))


def random_graph(seed: int, grouped: bool = False) -> Graph:
    """A small network of branches, sums, strides, dilation, non-square windows; layers that do not fit are redrawn."""
    drawing = _Drawing(Random(seed))
    while len(drawing.layers) < 14:
        try:
            drawing.layer(grouped)
        except ValueError:
            continue
    drawing.head()
    return Graph(tuple(drawing.layers))


def small():
    return build("resnet8", (12, 12), 1, 10)


def images_of(graph, batch=4, seed=0):
    return torch.randn(batch, *graph.shapes["image"], generator=torch.Generator().manual_seed(seed))
