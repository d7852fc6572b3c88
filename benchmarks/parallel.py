"""Training throughput of each PARALLEL over a shaped link between two hosts of network namespaces, and its bytes.

    python benchmarks/parallel.py [NETWORK:PIXELS:BATCH …] [--rate 1gbit 10gbit none] [--ranks 1 2]
                                  [--rounds 7] [--steps 1] [--limit 600]

All modes train with the same samples a step, Q x BATCH, and take turns in the same processes. Mixed modes need two
ranks on each host. The ratio is the median over the rounds of the throughput over that of `data` in the same round. MB
a step: those that the busiest host sent, by the counter of its interface; those that a rank sent to any host, as
counted, on average; and those that it has to send by formula: gradients, channels, activations between stages. `none`
is the training of all ranks on their own. Needed: root; without, it says so and ends.
"""

import argparse
import statistics
from typing import Any, NamedTuple

from hosts import obstacle
from link import described, end, machine, steps_over_link, table

# many parameters and few pixels, from few operations to many; few parameters and many pixels
CASES = ("resnet50:8:2", "resnet50:32:2", "resnet18:96:4", "resnet20:64:8")
SPLITS = ("2x1x2", "1x2x2")  # of four ranks
MODES = ("data", "tensor", "pipeline")


class Trained(NamedTuple):
    """A network, pixels a side, and samples of a step for each rank."""

    network: str
    pixels: int
    batch: int

    def __str__(self) -> str:
        return f"{self.network} at {self.pixels}², batch {self.batch} a rank"


def trained(text: str) -> Trained:
    """What NETWORK:PIXELS:BATCH says; ValueError for another text."""
    network, pixels, batch = text.split(":")
    return Trained(network, int(pixels), int(batch))


def paths(ranks: int) -> list[str]:
    """The modes of two hosts with so many ranks each, as settings."""
    mixed = [f"PARALLEL=mixed SPLIT={word}" for word in SPLITS] if ranks == 2 else []
    return [f"PARALLEL={mode}" for mode in MODES] + mixed


def rows(found: dict[str, dict[str, Any]], samples: int) -> list[str]:
    """The table of link.py, and behind it the bytes of a rank as counted and by formula."""
    head, *others = table(found, samples, "PARALLEL")
    measured, needed = found["measured"], found["needed"]
    counted = [statistics.median(sent for _, _, sent in rounds) for rounds in measured.values()]
    pairs = zip(others, counted, (needed[path] for path in measured), strict=False)  # refused ones have no bytes
    shown = [f"{row} {sent / 1e6:9.3f} {formula / 1e6:10.3f}" for row, sent, formula in pairs]
    return [f"{head}   of rank by formula", *shown, *others[len(shown) :]]


def parsed() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description="Training throughput of parallel modes over a shaped link.")
    shipped = [trained(case) for case in CASES]
    parser.add_argument("cases", nargs="*", type=trained, default=shipped, metavar="NETWORK:PIXELS:BATCH")
    parser.add_argument("--rate", nargs="+", default=["1gbit", "10gbit", "none"], help="of the link, as tc writes it")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2], help="ranks a host")
    for name, default in (("rounds", 7), ("steps", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--limit", type=float, default=600, help="seconds for each table")
    return parser.parse_args()


def measure(options: argparse.Namespace, case: Trained, ranks: int, rate: str) -> None:
    """Print a table."""
    of_table = argparse.Namespace(**{**vars(options), **case._asdict(), "rate": rate})
    found = steps_over_link(of_table, ranks, paths(ranks))
    print("", f"{case}; {described(of_table, ranks)}", *rows(found, 2 * ranks * case.batch), sep="\n", flush=True)


def main() -> int:
    """Print the machine and the versions, then a table for each case, number of ranks and rate."""
    options = parsed()
    if reason := obstacle():
        print(f"benchmarks/parallel.py: not run: {reason}")
        return 0
    print(machine(), flush=True)
    for case in options.cases:
        for ranks in options.ranks:
            for rate in options.rate:
                measure(options, case, ranks, rate)
    return 0


if __name__ == "__main__":
    end(main, "benchmarks/parallel.py")
