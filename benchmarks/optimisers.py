"""Time of an optimiser step on ResNet-50's parameters, and its ratio to torch's fused Adam or AdamW.

    python benchmarks/optimisers.py [THREADS]

All optimisers take steps in turn, in one process; medians of 15 rounds, and the first and third quartile. The ratio is
to the faster of torch's fused Adam and AdamW in the same round; LARS has to reach 1.15, LAMB 1.6:
Adam moves 7 arrays of the parameters' size through the memory, LARS 7 and LAMB 10, if no cache holds a tensor.
"""

import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402

from hpcai import networks  # noqa: E402
from hpcai.clock import now  # noqa: E402
from hpcai.inputfile.keys import keys_by_name  # noqa: E402
from hpcai.machine.inventory import processor, versions  # noqa: E402
from hpcai.models.module import build  # noqa: E402
from hpcai.train.optimisers import build_optimiser  # noqa: E402
from hpcai.update_rules import rule_of  # noqa: E402

ROUNDS, WARMUP = 15, 3
COMPARED = ("adam", "adamw")
LIMITS = {"lars": 1.15, "lamb": 1.6}
SETTINGS = {"MOMENTUM": 0.9, "DECAY": 1e-4, "BETA1": 0.9, "BETA2": 0.999, "EPSILON": 0.0, "TRUST": 0.001}


def optimiser(name: str) -> torch.optim.Optimizer:
    """An optimiser of a network of its own, with gradients."""
    module = build(networks.build("resnet50", (224, 224), 3, 1000), 1).to(memory_format=torch.channels_last)
    for parameter in module.parameters():
        parameter.grad = 1e-3 * torch.randn_like(parameter)
    return build_optimiser(rule_of({**SETTINGS, "OPTIMISER": name}), module, 1e-3)


def seconds(made: torch.optim.Optimizer) -> float:
    """Of one step."""
    begin = now()
    made.step()
    return now() - begin


def main() -> None:
    """Print the machine, the versions and the table."""
    torch.set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    print(f"{processor()}, {torch.get_num_threads()} threads; {versions()}")
    made = {name: optimiser(name) for name in keys_by_name()["OPTIMISER"].choices}
    rounds = [{name: seconds(each) for name, each in made.items()} for _ in range(WARMUP + ROUNDS)][WARMUP:]
    print(f"{'optimiser':<10} {'ms a step':>10} {'quartiles':>15} {'of Adam':>9} {'limit':>6}")
    for name in made:
        first, median, third = statistics.quantiles([1e3 * each[name] for each in rounds], n=4)
        ratio = statistics.median(each[name] / min(each[other] for other in COMPARED) for each in rounds)
        limit = LIMITS.get(name)
        verdict = "" if limit is None else f"{limit:>6.2f}  {'reached' if ratio <= limit else 'MISSED'}"
        print(f"{name:<10} {median:>10.2f} {f'{first:.2f} {third:.2f}':>15} {ratio:>9.3f} {verdict}")


if __name__ == "__main__":
    main()
