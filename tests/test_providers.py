"""Networks with custom kernels: every product of a step is custom, in each workload, compiled and resumed."""

from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest
import torch
from mpi4py import MPI
from state_files import read_state, write_state
from tiny import CPU, GRAPH, alone, bits, training, unending
from torch import Tensor
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from hpcai.clock import Phases
from hpcai.data import catalog
from hpcai.inputfile import Case, parse
from hpcai.inputfile.split import Cut
from hpcai.kernels.operators import on_cpu
from hpcai.models.module import build
from hpcai.preflight.case_checks import network
from hpcai.preflight.residuals import worst_residuals
from hpcai.record.trial import Hyperparameters
from hpcai.search.child_builder import Child
from hpcai.search.trial_plan import TrialPlan
from hpcai.train import providers
from hpcai.train.loop import Training
from hpcai.training import assembly
from hpcai.workloads.weather import measure

SAID = "1 GROUPS\n1 DEGREE\n4 BATCH\n0.1 LEARNRATE\n1 EPOCHS\n16 SAMPLES\n"
DATA = {
    "ensemble": "fashion DATASET\n16 RESOLUTION\n",
    "weather": "generated DATASET\n48 RESOLUTION\n2 CLASSES\n",
    "nas": "fashion DATASET\n16 RESOLUTION\n",
}
PRODUCTS = ("conv", "linear", "addmm", "mm", "bmm", "baddbmm", "addmv", "mv", "matmul", "dot")


def case_of(workload: str, kernels: str, precision: str = "fp32") -> Case:
    text = f"a\nb\n[{workload}]\n{DATA[workload]}{SAID}{kernels} KERNELS\n{precision} PRECISION\n"
    (case,) = parse(text, name="input.dat").cases(1)
    return case


def assembled(case: Case) -> Training:
    """Built as in the workload."""
    group = alone()
    if case.workload == "weather":
        fields = catalog.open_weather_for(case.data_settings)
        return measure.model_training(case, group, CPU, fields, network(case, fields))
    data = catalog.open_for(case.data_settings)
    graph = network(case, data)
    if case.workload == "nas":
        plan = TrialPlan(1, 0, 1, 0.0, None, (), (), Hyperparameters(batch=case["BATCH"], kernel=3), 1, 1)
        return assembly.trial_training(case, group, CPU, data, plan, Child(graph, build(graph, 1).state_dict()))
    return assembly.model_training(case, group, CPU, data, graph)


class Seen(TorchDispatchMode):
    """Records the names of called operators."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.add(operator._schema.name)
        return operator(*args, **(kwargs or {}))


def products_of_torch(case: Case) -> set[str]:
    """The products that torch computes in a step, forward and backward, and in a validation."""
    made = assembled(case)
    with Seen() as seen:
        made.run_uncredited([0])
        made.validation.warm_up(made.execution.eval_module)
    of_torch = {name.partition("::")[2].removesuffix("_") for name in seen.names if name.startswith("aten::")}
    return {name for name in of_torch if name in PRODUCTS or "convolution" in name}


@pytest.mark.parametrize("precision", ["fp32", "bf16", "pure16", "halffp16"])
@pytest.mark.parametrize("workload", DATA)
def test_no_product_of_a_step_or_a_validation_is_torchs(workload: str, precision: str) -> None:
    assert products_of_torch(case_of(workload, "custom", precision)) == set()


@pytest.mark.parametrize("workload", DATA)
def test_all_products_are_torchs_by_the_vendor(workload: str) -> None:
    assert {"convolution", "convolution_backward", "addmm", "mm"} <= products_of_torch(case_of(workload, "vendor"))


def faulty_product(*operands: Tensor) -> None:
    *_, result = operands
    result.fill_(1.0)


BAD_CUSTOM = partial(patch.object, on_cpu, "multiply", faulty_product)
BAD_VENDOR = partial(patch.object, functional, "conv2d", lambda *args, genuine=functional.conv2d: 1.1 * genuine(*args))


@pytest.mark.parametrize(("fault", "custom", "found"), [
    (BAD_CUSTOM, True, True), (BAD_CUSTOM, False, False), (BAD_VENDOR, False, True), (BAD_VENDOR, True, False),
])
def test_residuals_are_measured_of_the_kernels_that_train(fault: Callable[[], Any], custom: bool, found: bool) -> None:
    with fault():
        cut = Cut(samples=4)
        worst = worst_residuals(GRAPH, cut, MPI.COMM_SELF, CPU, 1, custom=lambda product: product[1] if custom else ())
    assert (worst.elementwise.value > 1) == found


def custom() -> Training:
    made = training(alone())
    providers.use_custom(made.state.module)
    return made


def test_a_training_continues_from_its_state_bit_by_bit(tmp_path: Any) -> None:
    whole, first, second = custom(), custom(), custom()
    whole.run(Phases(CPU), unending())
    first.run_uncredited([0, 1])
    write_state(first.state, tmp_path / "state")
    read_state(second.state, tmp_path / "state")
    assert bits(second.state.snapshot()) == bits(first.state.snapshot())
    for made in (first, second):
        made.run(Phases(CPU), unending())
    assert bits(second.state.snapshot()) == bits(first.state.snapshot()) != bits(whole.state.snapshot())


def test_compiled_networks_use_custom_kernels() -> None:
    """As one graph, and the same to the bit if the compiler fuses nothing."""
    seen: list[str] = []

    def noted(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        from torch._dynamo.backends.debugging import aot_eager

        seen.extend(str(node.target) for node in graph.graph.nodes)
        return aot_eager(graph, inputs)

    made = custom().state.module
    x = torch.randn(4, 2, 6, 7, generator=torch.Generator().manual_seed(3)).to(memory_format=torch.channels_last)
    compiled: Any = torch.compile(made, fullgraph=True, backend=noted)
    right, found = ([*torch.autograd.grad(each(x).sum(), list(made.parameters()))] for each in (made, compiled))
    assert all(torch.equal(one, other) for one, other in zip(right, found, strict=True))
    assert sum("hpcai.convolution" in each for each in seen) == 3 and sum("hpcai.dense" in each for each in seen) == 1
