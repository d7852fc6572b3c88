"""How long a search takes, on one core, to propose its next network, with so many trials known.

    python benchmarks/proposal.py

Trials are networks that the search itself proposed, under a made-up accuracy; the limits are those of depth, trained
values, and planned memory. The next proposal is asked for again and again with other seeds; printed are median and
maximum by the clock, the median by processor time, what one more trial costs when it is taken in, and the distances
from one network to all that are known.
"""

import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = "1"

from hpcai import networks  # noqa: E402, the threads of numpy are settled above
from hpcai.clock import now  # noqa: E402
from hpcai.estimate.memory import Facts, memory, total  # noqa: E402
from hpcai.inputfile.keys import keys_of  # noqa: E402
from hpcai.machine.inventory import processor, versions  # noqa: E402
from hpcai.networks.graph import Graph  # noqa: E402
from hpcai.search.candidates import Limits, propose  # noqa: E402
from hpcai.search.edit_distance import distances, packed  # noqa: E402
from hpcai.search.trial_history import TrialHistory  # noqa: E402

PROPOSALS = 11
SETTINGS = {key.name: key.defaults.get("nas", key.default) for key in keys_of("nas")}
SETTINGS |= {"GROUPS": 1, "DEGREE": 1, "BATCH": 32}
FACTS = Facts(data_bytes=0, samples=10**6, image_bytes=3 * 224 * 224)
MEMORY = 64 * 2**30
# network, pixels a side, trials that are known, seconds at most
CASES = (("resnet8", 28, 50, 0.15), ("resnet50", 224, 500, 1.5))
PARENTS = 16  # trials whose weights are kept


def fits(graph: Graph) -> bool:
    """Whether the memory that is planned for a network is there."""
    return total(memory(graph, SETTINGS, FACTS)) <= MEMORY


LIMITS = Limits(depth=200, parameters=200_000_000, fits=fits)


def filled(name: str, side: int, trials: int) -> TrialHistory:
    """A history of so many trials, each a candidate for one of the best before; one proposal is used for several."""
    history, dice = TrialHistory(networks.build(name, (side, side), 3, 10, "v1"), 1), Random(1)
    while len(history.evaluated) < trials:
        kept = sorted(history.evaluated, key=lambda id: -history.evaluated[id].value)[:PARENTS]
        for candidate in propose("bayes", history, kept, LIMITS, len(history.evaluated)).candidates[:4]:
            history.add(len(history.evaluated) + 1, candidate.chain, 0.7 + 0.2 * dice.random())
    return history


def timed(make: Callable[[], object]) -> tuple[float, float]:
    """Seconds by the clock, and of this thread's processor time."""
    begin, used = now(), time.thread_time()
    make()
    return now() - begin, time.thread_time() - used


def measure(name: str, side: int, trials: int, most: float) -> str:
    """One line of the table."""
    history = filled(name, side, trials)
    evaluated = history.evaluated
    known, kept = [*evaluated.values()], sorted(evaluated, key=lambda id: -evaluated[id].value)[:PARENTS]
    blocks = [timed(lambda: propose("bayes", history, kept, LIMITS, seed)) for seed in range(PROPOSALS)]  # noqa: B023
    wall, cpu = (statistics.median(block[column] for block in blocks) for column in (0, 1))
    chain = propose("bayes", history, kept, LIMITS, PROPOSALS).candidates[0].chain
    taken = timed(lambda: history.add(trials + 1, chain, 0.8))[0]
    taken += timed(lambda: history.distances(history.conditioned()))[0]
    library = packed([trial.features for trial in known])
    apart = statistics.median(timed(lambda: distances(known[-1].features, library))[0] for _ in range(PROPOSALS))
    met = "reached" if wall <= most else "reached by processor time" if cpu <= most else "MISSED"
    worst = max(block[0] for block in blocks)
    return (
        f"{name:10} {trials:>6} {wall:>9.3f} {worst:>9.3f} {cpu:>9.3f} {most:>7} "
        f"{1e3 * taken:>10.2f} {1e3 * apart:>12.2f}  {met}"
    )


def main() -> None:
    """Print the machine, the versions and the table."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print(f"{processor()}, one core; {', '.join(f'{name} {version}' for name, version in versions().items())}")
    print("network    trials  median s     max s   proc. s  needed  one more ms  distances ms")
    for case in CASES:
        print(measure(*case))


if __name__ == "__main__":
    main()
