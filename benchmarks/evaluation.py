"""Validation by our kernels, each convolution at once with its batch norm or one after the other, beside the vendor's.

    python benchmarks/evaluation.py [--rounds 9] [CASE ...]

A case is NETWORK:PIXELS:BATCH:THREADS. The three take turns on the same batch; printed are the least seconds, and the
median of the ratios of the rounds.
"""

import argparse
import os
import statistics
import sys
import time
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

CASES = ("resnet50:224:4:1", "resnet50:224:16:1", "resnet20:32:100:1")


def networks_of(name: str, pixels: int) -> dict[str, Any]:
    """The vendor's, and ours in both ways."""
    from hpcai import networks
    from hpcai.models.fused_layers import fuse
    from hpcai.models.module import build
    from hpcai.train.providers import use_custom

    graph = networks.build(name, (pixels, pixels), 3, 1000)
    vendor = build(graph, 1).to(memory_format=torch.channels_last).eval()  # type: ignore[call-overload]
    at_once, after = deepcopy(vendor), deepcopy(vendor)
    use_custom(at_once)
    use_custom(after)
    after.steps = list(after.as_planned)
    fuse(after)  # knows of no convolution that could wait
    return {"vendor": vendor, "one after the other": after, "at once": at_once}


@torch.inference_mode()
def measure(case: str, rounds: int) -> None:
    """Print seconds and ratios of a case."""
    name, *sizes = case.split(":")
    pixels, batch, threads = map(int, sizes)
    torch.set_num_threads(threads)
    players = networks_of(name, pixels)
    x = torch.randn(batch, 3, pixels, pixels).contiguous(memory_format=torch.channels_last)
    taken = [{who: seconds(network, x) for who, network in players.items()} for _ in range(rounds + 1)][1:]
    print(f"{case}: {', '.join(f'{who} {min(each[who] for each in taken):.4f} s' for who in players)}")
    for who in ("vendor", "one after the other"):
        ratio = statistics.median(each[who] / each["at once"] for each in taken)
        print(f"  {who} / at once: {ratio:.3f}")


def seconds(network: Any, x: torch.Tensor) -> float:
    """Of one forward pass."""
    begin = time.perf_counter()
    network(x)
    return time.perf_counter() - begin


def main() -> None:
    """Print the machine and the versions, then each case."""
    from hpcai.machine.inventory import processor, versions

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=CASES, metavar="CASE")
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    print(f"{processor()}, {len(os.sched_getaffinity(0))} CPUs, load {os.getloadavg()[0]:.1f}")
    print(", ".join(f"{name} {version}" for name, version in versions().items()), flush=True)
    for case in given.cases:
        measure(case, given.rounds)


if __name__ == "__main__":
    main()
