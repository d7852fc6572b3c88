"""Our kernels against the vendor's on a GPU: products and convolutions in every type, attention; ratios in one run.

    python benchmarks/gpu_speed.py [gemm] [convolution] [attention] [--types bf16 fp32] [--rounds 15] [--batch 64]
        [--small] [--json FILE]

Operands are random and rotate through several sets, what the second-level cache holds is overwritten before every call,
providers take turns call by call, and device events tell the time; what counts is the median. Every result is first
held against float64 (kernels/verify.py), and a row that is wrong is told as wrong and has no ratio. `--small`: odd
shapes that take no time, for tools that watch every access.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch

from hpcai.kernels import attention, conv2d, gemm, verify
from hpcai.kernels.providers import CUSTOM, VENDOR, Prepared, Unavailable, backend
from hpcai.kernels.spec import DIRECTIONS, FORWARD
from hpcai.opcount.products import of_network
from hpcai.workloads.kernels.checks import limit

KERNELS = ["gemm", "convolution", "attention"]
SQUARES = (1024, 2048, 4096, 8192, 16384)
# Rows, features and outputs of dense layers: of a transformer (4096 features, 8192 words), of ResNet-50's 1 x 1
# convolutions on 64 pictures, and of its classifier.
LAYERS = (
    *((8192, 4096, 4096), (8192, 4096, 16384), (8192, 16384, 4096), (2048, 8192, 28672)),
    *((200704, 64, 256), (50176, 512, 128), (12544, 256, 1024), (3136, 2048, 512), (64, 2048, 1000)),
)
TYPES = ("bf16", "fp16", "tf32", "fp32", "int8", "fp64")
CONVOLVED = ("bf16", "fp16", "tf32", "fp32")
ATTENDED = ("bf16", "fp16", "fp32")
PLACES, TOKENS, HEADS = (128, 512, 1024, 2048, 4096), 16384, 12  # places of a sequence; of all of them; heads of 64
MOST_SETS = 4
TRIALS = 3
SLOW = {"fp64": 4096}  # largest square of a type: others take seconds
Call = Callable[[], Any]


@dataclass
class Row:
    """A product: times in seconds, residuals with their limit, and why a provider has none."""

    kernel: str
    dtype: str
    shape: str
    direction: str
    operations: int
    seconds: dict[str, float] = field(default_factory=dict)
    residuals: dict[str, float] = field(default_factory=dict)
    variants: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def wrong(self) -> list[str]:
        """Providers whose result is not what float64 says."""
        return [provider for provider, value in self.residuals.items() if not value <= limit(self.dtype)]

    def _rate(self, provider: str) -> str:
        taken = self.seconds.get(provider)
        return f"{self.operations / taken / 1e12:.1f}" if taken else "-"

    @property
    def ratio(self) -> float | None:
        """The vendor's time over ours, of right results."""
        ours, theirs = (self.seconds.get(provider) for provider in (CUSTOM, VENDOR))
        return theirs / ours if ours and theirs and not self.wrong else None

    def __str__(self) -> str:
        ours, theirs = (self._rate(provider) for provider in (CUSTOM, VENDOR))
        ratio = "-" if self.ratio is None else f"{self.ratio:.3f}"
        notes = [f"{who} WRONG: residual {self.residuals[who]:.3g}" for who in self.wrong]
        notes += [f"no {who}: {why}" for who, why in self.missing.items()]
        product = f"{self.kernel:<9} {self.dtype:<5} {self.shape:<44} {self.direction:<15}"
        return f"{product} {ours:>8} {theirs:>8} {ratio:>7} {'; '.join(notes)}"


class Cache:
    """The second-level cache of a GPU, overwritten by twice its size."""

    def __init__(self, device: torch.device) -> None:
        nbytes = torch.cuda.get_device_properties(device).L2_cache_size
        self.nbytes = nbytes
        self._memory = torch.empty(2 * nbytes, dtype=torch.uint8, device=device)

    def flush(self) -> None:
        """Put it on torch's current stream."""
        self._memory.zero_()


def medians(calls: dict[str, Sequence[Call]], cache: Cache, rounds: int) -> dict[str, float]:
    """Seconds of each provider, whose calls are the same product of several sets of operands."""
    events: dict[str, list[tuple[torch.cuda.Event, torch.cuda.Event]]] = {name: [] for name in calls}
    for number in range(rounds + 1):  # the first one does not count
        for name, sets in calls.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            cache.flush()
            begin.record()
            sets[number % len(sets)]()
            end.record()
            events[name].append((begin, end))
    torch.cuda.synchronize()
    return {name: statistics.median(b.elapsed_time(e) for b, e in pairs[1:]) / 1e3 for name, pairs in events.items()}


def sets_of(nbytes: int, cache: Cache) -> int:
    """So many that together they are larger than the cache, and few enough for the memory."""
    free = torch.cuda.mem_get_info()[0]
    return max(1, min(MOST_SETS, -(-2 * cache.nbytes // nbytes), free // (8 * nbytes)))


def prepared(
    kernel: Any, shape: Any, direction: str, provider: str, data: Sequence[Any], cache: Cache
) -> list[Prepared]:
    """The fastest way of a provider, once for each set of operands."""
    module = backend(kernel.SPEC, provider, "cuda")
    found = [module.prepare(shape, direction, each, "cuda:0", 1) for each in data]
    taken = medians({str(number): [way.call] for number, way in enumerate(found[0])}, cache, TRIALS)
    fastest = int(min(taken, key=lambda number: taken[number]))
    return [ways[fastest] for ways in found]


def measured(kernel: Any, shape: Any, direction: str, dtype: str, text: str, cache: Cache, rounds: int) -> Row:
    """One product by both providers."""
    row = Row(kernel.SPEC.name, dtype, text, direction, kernel.SPEC.operations_of(shape, direction))
    sets = sets_of(kernel.SPEC.nbytes(shape, direction, dtype), cache)
    data = [verify.drawn(shape, dtype, seed) for seed in range(1, sets + 1)]
    ways: dict[str, list[Prepared]] = {}
    for provider in (CUSTOM, VENDOR):
        try:
            ways[provider] = prepared(kernel, shape, direction, provider, data, cache)
        except Unavailable as reason:
            row.missing[provider] = str(reason)
            continue
        ways[provider][0].call()
        found = verify.residual(kernel.SPEC, shape, direction, dtype, data[0], ways[provider][0])
        row.residuals[provider], row.variants[provider] = found, ways[provider][0].variant
    row.seconds = medians({name: [way.call for way in each] for name, each in ways.items()}, cache, rounds)
    return row


def products(types: Sequence[str]) -> Iterator[tuple[Any, Any, str, str, str]]:
    """Squares as two matrices lie, and layers in all directions."""
    for dtype in types:
        for side in SQUARES:
            if side <= SLOW.get(dtype, side):
                yield gemm, gemm.Shape(side, side, side), FORWARD, dtype, f"{side} x {side} x {side}"
        for batch, features, outputs in LAYERS:
            for direction in DIRECTIONS:
                text = f"batch {batch}, {features} to {outputs}"
                yield gemm, gemm.Shape(batch, features, outputs), direction, dtype, text


def convolutions(types: Sequence[str], batch: int) -> Iterator[tuple[Any, Any, str, str, str]]:
    """The convolutions of ResNet-50, each shape and direction once."""
    for dtype in (each for each in types if each in CONVOLVED):
        for product in of_network("resnet50", batch):
            if product.kernel == "conv2d":
                yield conv2d, product.layer, product.direction, dtype, product.shape


def attentions(types: Sequence[str]) -> Iterator[tuple[Any, Any, str, str, str]]:
    """Sequences of different lengths with as many places together, both passes."""
    for dtype in (each for each in types if each in ATTENDED):
        for places in PLACES:
            shape = attention.Shape(TOKENS // places, HEADS, places)
            yield from ((attention, shape, each, dtype, shape.text(each)) for each in attention.PASSES)


def small() -> Iterator[tuple[Any, Any, str, str, str]]:
    """Of every kernel, type and direction one odd shape."""
    for dtype in TYPES:
        for direction in DIRECTIONS:
            yield gemm, gemm.Shape(130, 72, 264), direction, dtype, "batch 130, 72 to 264"
            if dtype in CONVOLVED:
                shape = conv2d.Shape(2, 24, 13, 11, 40, (3, 3), (2, 1), (1, 1))
                yield conv2d, shape, direction, dtype, "n2 c24 h13 w11 f40 k3x3 s2x1 p1x1"
    for dtype in ATTENDED:
        sizes = attention.Shape(2, 3, 150, 128)
        yield from ((attention, sizes, each, dtype, sizes.text(each)) for each in attention.PASSES)


def summary(rows: Sequence[Row]) -> Iterator[str]:
    """Means of the ratios by kernel, type and direction."""
    for kernel, dtype in dict.fromkeys((row.kernel, row.dtype) for row in rows):
        mine = [row for row in rows if (row.kernel, row.dtype) == (kernel, dtype)]
        for direction in ("", *dict.fromkeys(row.direction for row in mine)):
            some = [row.ratio for row in mine if direction in ("", row.direction) and row.ratio is not None]
            wrong = sum(bool(row.wrong) for row in mine if direction in ("", row.direction))
            told = f"mean ratio {statistics.mean(some):.3f}, least {min(some):.3f}" if some else "no ratio"
            yield f"{kernel:<9} {dtype:<5} {direction or 'all':<15} {told}, {len(some)} products, {wrong} wrong"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", default=KERNELS, help=", ".join(KERNELS))
    parser.add_argument("--types", nargs="+", default=TYPES, choices=TYPES)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--batch", type=int, default=64, help="pictures of the convolutions")
    parser.add_argument("--small", action="store_true", help="odd shapes that take no time, instead")
    parser.add_argument("--json", type=Path, help="write the rows there as well")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("NO GPU: nothing measured")
    cache, rows = Cache(torch.device("cuda")), []
    asked = [*(products(options.types) if "gemm" in options.what else ())]
    asked += [*(convolutions(options.types, options.batch) if "convolution" in options.what else ())]
    asked += [*(attentions(options.types) if "attention" in options.what else ())]
    asked = list(small()) if options.small else asked
    print(f"{'kernel':<9} {'type':<5} {'shape':<44} {'direction':<15} {'TFLOP/s':>8} {'vendor':>8} {'ratio':>7}")
    for each in asked:
        rows.append(measured(*each, cache, options.rounds))
        print(rows[-1], flush=True)
    print("", *summary(rows), sep="\n")
    if options.json:
        options.json.write_text(json.dumps([{**asdict(row), "ratio": row.ratio} for row in rows], indent=1))
    return 1 if any(row.wrong for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
