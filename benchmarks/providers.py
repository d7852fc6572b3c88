"""Steps of training by our kernels, and by the faster of each layer, over those by the vendor's: one and two threads.

    python benchmarks/providers.py [--rounds 31] [CASE ...]

A case is NETWORK:PIXELS:BATCH:THREADS, and a process of its own. There the three networks train in turns, block by
block, each after a pause: so all see the same machine, and no thread pool waits in another's time. As in the program,
freed memory is kept. Printed are the medians of the ratios of the rounds, above 1 where ours take less time, with the
quartiles; by the clock, and by processor time, which holds on a machine with other work too but does not see waiting.
Needed: auto 0.99 of the better of both; custom 1.12 of resnet50 at 224 pixels, 1.10 of resnet20, 1.15 of resnet8.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from copy import deepcopy
from itertools import product
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

# network:pixels:batch:threads
NETWORKS = ("resnet50:224:4", "resnet20:32:64", "resnet8:28:32")
CASES = tuple(f"{network}:{threads}" for threads in (1, 2) for network in NETWORKS)
PAUSE = 0.05  # seconds, in which the pools of the others go to sleep
BLOCK = 0.1  # seconds of steps: short, since the speed of a shared machine changes within seconds


def launch(case: str, rounds: int) -> int:
    """Measure one case in a process of its own."""
    threads = case.rsplit(":", 1)[1]
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
    command = [sys.executable, __file__, "--rounds", str(rounds), "--here", case]
    return subprocess.run(command, env={**os.environ, **dict.fromkeys(names, threads)}, check=False).returncode


def seconds(training: Any, module: Any, batch: Any, optimiser: Any, steps: int) -> tuple[float, float]:
    """Mean of some steps of training, after one that does not count: by the clock, and of the processor."""
    time.sleep(PAUSE)
    begin = used = 0.0
    for number in range(steps + 1):
        if number == 1:
            begin, used = time.perf_counter(), time.process_time()
        optimiser.zero_grad(set_to_none=True)
        training.objective(module, *batch, 0).backward()
        optimiser.step()
    return (time.perf_counter() - begin) / steps, (time.process_time() - used) / steps


def measure(case: str, rounds: int) -> None:
    """Print the ratios of a case, and how much of the network auto has given to custom kernels."""
    from interleaved import CPU, WORLD, built

    from hpcai.machine import device as devices
    from hpcai.machine import memory
    from hpcai.preflight.kernel_choice import choose
    from hpcai.results.kernel_choice import custom_share
    from hpcai.train.optimisers import build_optimiser
    from hpcai.train.providers import use_custom

    network, *sizes = case.split(":")
    pixels, size, threads = map(int, sizes)
    devices.prepare(CPU, threads)
    memory.retain_freed_memory()
    training = built(network, pixels, size, 2)
    found = choose(training, WORLD, CPU)
    module: Any = training.state.module
    modules = {"vendor": module.train(), "custom": deepcopy(module), "auto": deepcopy(module)}
    use_custom(modules["custom"])
    use_custom(modules["auto"], found.choice)
    ((x, y, _),) = training.loader([training.sampler.draw(training.shard.step_positions(0))])
    rule, rate = training.recipe.rule, training.recipe.peak_rate
    players = {name: (each, (x, y), build_optimiser(rule, each, rate)) for name, each in modules.items()}
    steps = max(1, round(BLOCK / min(seconds(training, *player, 1)[0] for player in players.values())))
    taken = [{name: seconds(training, *player, steps) for name, player in players.items()} for _ in range(rounds)]
    share = custom_share(found.measured)
    assert share is not None, "what was measured has a share"
    vendors = statistics.median(each["vendor"][0] for each in taken)
    print(f"{case}: vendor {vendors:.4f} s a step, {rounds} rounds of {steps}")
    for name, (kind, words) in product(("custom", "auto"), enumerate(("the clock", "processor time"))):
        ratios = [each["vendor"][kind] / each[name][kind] for each in taken]
        lower, _, upper = statistics.quantiles(ratios)
        spread = f"{lower:.3f} to {upper:.3f}"
        print(f"  {name:<6} / vendor by {words}: {statistics.median(ratios):.3f} ({spread})")
    custom = f"{share.directions:.2f} of the products, {share.normalisations:.2f} of the batch norms"
    print(f"  auto: {custom} by custom kernels", flush=True)


def main() -> int:
    """Print the machine and the versions, then a block of lines for each case; 1 if one could not be measured."""
    from hpcai.machine.inventory import processor, versions

    parser = argparse.ArgumentParser(description="Steps by our kernels over steps by the vendor's.")
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--here", action="store_true", help="measure in this process")
    parser.add_argument("cases", nargs="*", default=CASES, metavar="CASE")
    options = parser.parse_args()
    if options.here:
        measure(options.cases[0], options.rounds)
        return 0
    print(f"{processor()}, {len(os.sched_getaffinity(0))} CPUs, load {os.getloadavg()[0]:.1f}")
    print(", ".join(f"{name} {version}" for name, version in versions().items()), flush=True)
    return max([launch(case, options.rounds) for case in options.cases])


if __name__ == "__main__":
    sys.exit(main())
