"""What loading ahead is worth: training throughput with the loading thread over throughput without it.

    python benchmarks/prefetch.py [--network resnet18] [--resolution 64] [--batch 32] [--steps 8] [--blocks 7]

Packs pictures of its own, then trains on them in turn with and without the thread, block by block, in one process. On a
machine whose processors all compute, the thread takes from the training what it saves: a ratio of 1 is then the best.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402, the checkout comes first
import torch  # noqa: E402
from PIL import Image  # noqa: E402
from torch.nn.functional import cross_entropy  # noqa: E402

from hpcai import clock, networks  # noqa: E402
from hpcai.data.catalog import open_dataset  # noqa: E402
from hpcai.data.image_dataset import Dataset  # noqa: E402
from hpcai.data.image_loader import Loader  # noqa: E402
from hpcai.data.order import EpochOrder, Shard  # noqa: E402
from hpcai.data.pack.__main__ import main as pack  # noqa: E402
from hpcai.inputfile import Case  # noqa: E402
from hpcai.machine import device as devices  # noqa: E402
from hpcai.machine.affinity import own_cpus  # noqa: E402
from hpcai.machine.inventory import processor, versions  # noqa: E402
from hpcai.models.module import build  # noqa: E402

CLASSES, PICTURES = 4, 256
DEPTHS = (2, 0)


def make_tree(root: Path) -> Path:
    """Class folders of noise: what the pictures show does not matter here."""
    random = np.random.default_rng(1)
    for split, number in (("train", PICTURES), ("val", CLASSES)):
        for place in range(number):
            path = root / split / str(place % CLASSES) / f"{place}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(random.integers(0, 256, (256, 256, 3), np.uint8)).save(path, compress_level=0)
    return root


class Training:
    """Steps of one network on a packed set, with a loader for each depth."""

    def __init__(self, data: Dataset, options: argparse.Namespace, device: torch.device) -> None:
        settings = {"RESOLUTION": options.resolution, "NETWORK": options.network, "VARIANT": "v1.5"}
        graph = networks.for_data(Case(1, "ensemble", settings), data.shape, data.classes)
        self.device, self.options, self.epoch = device, options, 0
        self.module = build(graph, 1).to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.optimiser = torch.optim.SGD(self.module.parameters(), 1e-3, fused=True)
        arguments = (data.train, device, data.mean, data.std, options.resolution)
        self.loaders = {
            depth: Loader(*arguments, batch=options.batch, depth=depth, crops=data.crops) for depth in DEPTHS
        }

    def rate(self, depth: int) -> float:
        """Images a second over one block of steps."""
        clock.synchronise(self.device)
        begin = clock.now()
        for x, y, _ in self._batches(self.loaders[depth]):
            cross_entropy(self.module(x), y).backward()
            self.optimiser.step()
            self.optimiser.zero_grad(set_to_none=True)
        clock.synchronise(self.device)
        return self.options.batch * self.options.steps / (clock.now() - begin)

    def _batches(self, loader: Loader) -> Iterator[tuple[torch.Tensor, torch.Tensor, object]]:
        batch, steps = self.options.batch, self.options.steps
        self.epoch += 1
        shard, order = Shard(PICTURES, 0, 1, batch), EpochOrder(PICTURES, 1, self.epoch)
        turns = [step % (PICTURES // batch) for step in range(steps)]
        crops = [box for step in turns for box in loader.augmentation(1, 0, self.epoch, shard, step, step + 1) or ()]
        yield from loader([order(shard.step_positions(step)) for step in turns], crops)


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description="Throughput with the loading thread over throughput without it.")
    parser.add_argument("--network", default="resnet18", choices=networks.NAMES)
    for name, default in (("resolution", 64), ("batch", 32), ("steps", 8), ("blocks", 7)):
        parser.add_argument(f"--{name}", type=int, default=default)
    return parser.parse_args()


def main() -> None:
    """Print the machine, the versions, both rates and their ratio."""
    options, device = arguments(), devices.first()
    devices.prepare(device, len(own_cpus()))
    with tempfile.TemporaryDirectory() as folder:
        pack([str(make_tree(Path(folder) / "tree")), f"{folder}/set"])
        training = Training(open_dataset(f"imagenet:{folder}/set"), options, device)
        for depth in DEPTHS:
            training.rate(depth)  # warm-up
        blocks = [{depth: training.rate(depth) for depth in DEPTHS} for _ in range(options.blocks)]
    on, off = (statistics.median(block[depth] for block in blocks) for depth in DEPTHS)
    ratio = statistics.median(block[DEPTHS[0]] / block[DEPTHS[1]] for block in blocks)
    libraries = ", ".join(f"{name} {number}" for name, number in versions().items())
    sizes = f"batch {options.batch}, {options.blocks} blocks of {options.steps} steps"
    print(f"{processor()}, {devices.name(device)}; {libraries}")
    print(f"{options.network} at {options.resolution}, {sizes}")
    print(f"prefetch on {on:.1f} images/s, off {off:.1f} images/s, ratio on/off {ratio:.3f}")


if __name__ == "__main__":
    main()
