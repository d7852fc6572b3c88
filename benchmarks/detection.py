"""Our kernels of detection against what plain torch has: suppression of boxes, and pooling of regions.

    python benchmarks/detection.py [nms] [roi_align] [--threads 1 2] [--rounds 7]

torch has neither: beside ours stand the usual ways to write them with its operators, a matrix of all overlaps and a
walk over its rows, and `grid_sample` with a mean over the samples, with the layout that is faster. Both take turns in
blocks of calls; what counts is the median of the ratios of the rounds. Both results are compared before they are timed.
"""

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

LEAST = 0.1  # seconds of a block
SIDE, SAMPLES = 7, 2
# images, boxes, kept, and how far boxes lie apart: few or most are suppressed
SUPPRESSIONS = [(2, 1000, 1000, 100), (2, 1000, 1000, 2000), (2, 1000, 100, 2000), (1, 4000, 1000, 2000)]
# images, height, width, channels, regions: the finest level at 768 x 1152 and at 96 x 144, and a coarse one
POOLINGS = [(1, 192, 288, 256, 512), (8, 24, 36, 64, 64), (2, 48, 72, 256, 512)]


def nms_by_torch(boxes: Any, scores: Any, groups: Any, threshold: float, kept: int) -> list[list[int]]:
    """Indices of what is kept of each image."""
    return [_walk(*image, threshold, kept) for image in zip(boxes, scores, groups, strict=True)]


def _walk(boxes: Any, scores: Any, groups: Any, threshold: float, kept: int) -> list[int]:
    import torch

    order = torch.argsort(scores, descending=True, stable=True)
    own, group = boxes[order], groups[order]
    low, high = torch.maximum(own[:, None, :2], own[None, :, :2]), torch.minimum(own[:, None, 2:], own[None, :, 2:])
    shared, areas = (high - low).clamp(0).prod(-1), (own[:, 2:] - own[:, :2]).clamp(0).prod(-1)
    over = (shared > threshold * (areas[:, None] + areas[None] - shared)) & (group[:, None] == group[None])
    rows, gone = over.numpy(), torch.zeros(len(own), dtype=torch.bool).numpy()
    chosen: list[int] = []
    for place, index in enumerate(order.tolist()):
        if len(chosen) == kept:
            break
        if not gone[place]:
            chosen.append(index)
            gone |= rows[place]
    return chosen


def pooled_by_torch(features: Any, regions: Any) -> Any:
    """[B * R, C, side, side] of features [B, C, H, W]; regions [B, R, 4] in pixels of the features."""
    import torch
    from torch.nn.functional import avg_pool2d, grid_sample

    height, width = features.shape[2:]
    points = SIDE * SAMPLES
    parts = (torch.arange(points) + 0.5) / points
    low, sides = regions[..., :2, None], (regions[..., 2:] - regions[..., :2])[..., None]
    y, x = ((low + parts * sides) * 2 / torch.tensor([[height], [width]]) - 1).unbind(2)
    shape = (*y.shape, points)
    grid = torch.stack([x[:, :, None, :].expand(shape), y[..., None].expand(shape)], -1)
    sampled = grid_sample(features, grid.flatten(1, 2), padding_mode="border", align_corners=False)
    bins = avg_pool2d(sampled, SAMPLES).unflatten(2, (-1, SIDE))
    return bins.transpose(1, 2).flatten(0, 1)


def seconds(call: Callable[[], Any]) -> float:
    """Of one call: the mean of as many as fit a block, after one that does not count."""
    from hpcai.clock import now

    call()
    begin, calls = now(), 0
    while now() - begin < LEAST:
        call()
        calls += 1
    return (now() - begin) / calls


def told(title: str, calls: dict[str, Callable[[], Any]], rounds: int) -> None:
    """Print the median milliseconds of each, the first ours, and the ratio to the best other."""
    found = [{name: seconds(call) for name, call in calls.items()} for _ in range(rounds)]
    own, *others = calls
    ratios = [min(times[name] for name in others) / times[own] for times in found]
    rates = "  ".join(f"{name} {1e3 * statistics.median(times[name] for times in found):9.3f} ms" for name in calls)
    print(f"{title:<58} {rates}  ratio {statistics.median(ratios):.2f}", flush=True)


def suppressions(rounds: int) -> None:
    """On boxes of two groups."""
    import torch

    from hpcai.models.detection.regions import nms

    for images, count, kept, spread in SUPPRESSIONS:
        generator = torch.Generator().manual_seed(1)
        corner = torch.rand(images, count, 2, generator=generator) * spread
        boxes = torch.cat([corner, corner + 20 + 60 * torch.rand(images, count, 2, generator=generator)], 2)
        scores = torch.rand(images, count, generator=generator)
        case = (boxes, scores, torch.randint(0, 2, (images, count), generator=generator).int(), 0.5, kept)
        ours, theirs = [[k for k in row if k >= 0] for row in nms(*case).tolist()], nms_by_torch(*case)
        stay = len(theirs[0])
        assert sum(a != b for a, b in zip(ours, theirs, strict=True)) == 0, "they keep different boxes"
        calls = {"ours": lambda case=case: nms(*case), "torch": lambda case=case: nms_by_torch(*case)}
        told(f"nms of {images} x {count} boxes, {kept} wanted, {stay} stay", calls, rounds)


def poolings(rounds: int) -> None:
    """Forward, and forward with backward."""
    import torch

    for images, height, width, channels, number in POOLINGS:
        generator = torch.Generator().manual_seed(1)
        size = torch.tensor([height, width])
        corner = torch.rand(images, number, 2, generator=generator) * (size - 14).clamp(1)
        regions = torch.cat([corner, corner + 3 + 11 * torch.rand(images, number, 2, generator=generator)], 2)
        features = torch.randn(images, channels, height, width, generator=generator)
        ways = _ways(features, regions)
        gradients = _compared(ways)
        title = f"{images} x {height} x {width} x {channels}, {number} regions"
        told(f"forward  {title}", {name: _forward(*way) for name, way in ways.items()}, rounds)
        told(f"both     {title}", {name: _both(*way, gradients) for name, way in ways.items()}, rounds)


def _ways(features: Any, regions: Any) -> dict[str, tuple[Callable[..., Any], Any]]:
    import torch

    from hpcai.models.detection.regions import roi_align

    level = torch.zeros(regions.shape[:2], dtype=torch.int32)
    last, first = features.contiguous(memory_format=torch.channels_last).requires_grad_(), features.requires_grad_()
    return {
        "ours": (lambda x: roi_align([x], regions, level, [1.0], SIDE, SAMPLES), last),
        "torch, channels first": (lambda x: pooled_by_torch(x, regions), first),
        "torch, channels last": (lambda x: pooled_by_torch(x, regions), last),
    }


def _compared(ways: dict[str, tuple[Callable[..., Any], Any]]) -> Any:
    """A gradient of the result, after all have given the same for it."""
    import torch

    results = [pool(x) for pool, x in ways.values()]
    gradient = torch.randn(results[0].shape)
    found = [torch.autograd.grad(pool(x), x, gradient)[0] for pool, x in ways.values()]
    for result, other in zip(results[1:], found[1:], strict=True):
        torch.testing.assert_close(result, results[0], atol=1e-3, rtol=1e-3)
        torch.testing.assert_close(other, found[0], atol=1e-2, rtol=1e-2)
    return gradient


def _forward(pool: Callable[..., Any], features: Any) -> Callable[[], Any]:
    return lambda: pool(features.detach())


def _both(pool: Callable[..., Any], features: Any, gradient: Any) -> Callable[[], Any]:
    import torch

    return lambda: torch.autograd.grad(pool(features), features, gradient)


def main(arguments: Sequence[str]) -> int:
    """Run what is asked for, each number of threads in a process of its own."""
    parser = argparse.ArgumentParser(description="Our kernels of detection against plain torch.")
    parser.add_argument("what", nargs="*", default=["nms", "roi_align"])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args(arguments)
    if len(options.threads) > 1:
        commands = [[sys.executable, __file__, *arguments, "--threads", str(threads)] for threads in options.threads]
        return max(subprocess.run(command, check=False).returncode for command in commands)
    (threads,) = options.threads
    for name in ("OMP", "MKL", "NUMBA"):
        os.environ[f"{name}_NUM_THREADS"] = str(threads)
    import torch

    from hpcai.machine.inventory import processor, versions

    torch.set_num_threads(threads)
    known = ", ".join(f"{name} {version}" for name, version in versions().items())
    print(f"{processor()}, {threads} threads, load {os.getloadavg()[0]:.1f}; {known}", flush=True)
    for name, measure in (("nms", suppressions), ("roi_align", poolings)):
        if name in options.what:
            measure(options.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
