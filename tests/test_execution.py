"""The execution of a network: compiled networks train alike, are compiled before the clock, and counted right."""

import subprocess
import sys
from collections.abc import Callable
from socket import gethostname
from typing import TYPE_CHECKING, Any

import pytest
import torch
from launch import BENCH, ROOT
from sampled_parameters import one_in

from hpcai.machine import compilers

if TYPE_CHECKING:
    from hpcai.comm.grid import Group
    from hpcai.train.loop import Training


def traced(graph: Any, inputs: Any) -> Any:
    """A compiler that decomposes a graph and runs it: torch's path to inductor without the C++."""
    from torch._dynamo.backends.debugging import aot_eager

    return aot_eager(graph, inputs)


def ran(group: "Group", how: str, compiler: Callable[..., Any] | None = traced, **changes: Any) -> "Training":
    """A tiny training after its last epoch, executed in the given way."""
    from tiny import CPU, training, unending

    from hpcai.clock import Phases
    from hpcai.train import compiled_execution as execution

    with pytest.MonkeyPatch.context() as patch:
        if compiler is not None:
            patch.setattr(execution, "_inductor", lambda: compiler)
        trained = training(group, samples=20 * group.degree, compile=how, epochs=2, **changes)
    trained.warm_up()
    trained.run(Phases(CPU), unending())
    return trained


def per_sample() -> int:
    from tiny import GRAPH

    from hpcai import opcount

    return opcount.count(GRAPH, "model").total


def alike(one: "Training", other: "Training") -> bool:
    """The same weights except for the rounding of a few steps."""
    pairs = zip(one.state.module.parameters(), other.state.module.parameters(), strict=True)
    return all(torch.allclose(a, b, rtol=1e-3, atol=1e-5) for a, b in pairs)


@pytest.mark.slow
@pytest.mark.parallel(2)
def test_a_compiled_group_trains_alike_and_its_operations_are_counted() -> None:
    from mpi4py import MPI
    from msgspec.structs import replace
    from tiny import CPU

    from hpcai.comm.grid import split
    from hpcai.comm.rendezvous import process_group
    from hpcai.train.data_parallel import differs_from_others

    group = split(MPI.COMM_WORLD, 1, MPI.COMM_WORLD.size, "row")
    assert group is not None
    with process_group(group, gethostname(), CPU):
        plain, compiled = ran(group, "off"), ran(group, "torch")
        assert alike(plain, compiled) and not differs_from_others(compiled.state.module, group)
        for trained in (plain, compiled):
            progress = trained.state.progress
            assert progress.operations == progress.samples * per_sample()
        found = compiled.execution.measured(group.model)
        assert found.by == "torch.compile" and found.late_graphs == 0 and found.compile_seconds > 0
        assert found.graphs >= 4  # full and last batch, trained and evaluated
        expected = replace(
            found, by="layer by layer", graphs=0, late_graphs=0, compile_seconds=0.0, trials={}
        )  # as many buckets
        assert plain.execution.measured(group.model) == expected


def left_out(genuine: Callable[..., None], training: Any, x: torch.Tensor, y: torch.Tensor) -> None:
    """No step at all."""


def without_backward(genuine: Callable[..., None], training: Any, x: torch.Tensor, y: torch.Tensor) -> None:
    training.execution.replica(x)


def on_half_a_batch(genuine: Callable[..., None], training: Any, x: torch.Tensor, y: torch.Tensor) -> None:
    genuine(training, x[::2], y[::2])


def twice(genuine: Callable[..., None], training: Any, x: torch.Tensor, y: torch.Tensor) -> None:
    genuine(training, x, y)
    genuine(training, x, y)


@pytest.mark.slow
@pytest.mark.parametrize("fault", one_in(4, [left_out, without_backward, on_half_a_batch, twice]))
def test_a_faulty_step_of_a_compiled_network_is_not_credited(
    monkeypatch: pytest.MonkeyPatch, fault: Callable[..., None]
) -> None:
    from tiny import alone

    from hpcai.train.loop import Training

    genuine = Training._step

    def step(self: Any, x: torch.Tensor, y: torch.Tensor) -> None:
        if self.state.progress.steps == 1:
            fault(genuine, self, x, y)
        else:
            genuine(self, x, y)

    def warm_up(self: Any) -> int:
        with monkeypatch.context() as inside:
            inside.setattr(Training, "_step", genuine)
            return prepared(self)

    prepared = Training.warm_up
    monkeypatch.setattr(Training, "_step", step)
    monkeypatch.setattr(Training, "warm_up", warm_up)
    trained = ran(alone(), "torch", lambda graph, inputs: graph)
    progress = trained.state.progress
    assert progress.operations != progress.samples * per_sample()
    assert trained.execution.measured(trained.group.active).late_graphs == (fault is on_half_a_batch)


def test_a_layer_that_is_skipped_is_not_credited(monkeypatch: pytest.MonkeyPatch) -> None:
    import tiny

    def build(*arguments: Any) -> torch.nn.Module:
        network = genuine(*arguments)
        network.branch = torch.nn.Identity()
        return network

    genuine = tiny.build
    monkeypatch.setattr(tiny, "build", build)
    progress = ran(tiny.alone(), "torch", lambda graph, inputs: graph).state.progress
    assert 0 < progress.operations < progress.samples * per_sample()


@pytest.mark.exhaustive
@pytest.mark.skipif(bool(compilers.obstacle(False)), reason="NO COMPILER: NOTHING COMPILED BY INDUCTOR")
def test_networks_compiled_by_inductor_train_alike(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from tiny import alone

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    trained = ran(alone(), "torch", None)
    progress = trained.state.progress
    assert progress.operations == progress.samples * per_sample()
    assert trained.execution.measured(trained.group.active).late_graphs == 0
    assert alike(ran(alone(), "off"), trained)
    assert any(tmp_path.rglob("*.so"))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="NO GPU: NO CUDA GRAPH CAPTURED")
def test_a_captured_network_has_the_gradients_of_the_plain_one() -> None:
    from tiny import GRAPH, SEED, SHAPE

    from hpcai.models.module import build
    from hpcai.train.compiled_execution import _captured

    device = torch.device("cuda", torch.cuda.current_device())
    plain, module = (build(GRAPH, SEED).to(device) for _ in range(2))
    x = torch.randn(8, *SHAPE, device=device)
    captured = _captured(module, x.clone())
    module.load_state_dict(plain.state_dict())
    for images in (x, x[:3]):
        for network, parts in ((captured, module), (plain, plain)):
            parts.zero_grad(set_to_none=True)
            network(images).square().sum().backward()
        for one, other in zip(module.parameters(), plain.parameters(), strict=True):
            assert torch.allclose(one.grad, other.grad, rtol=1e-3, atol=1e-4)


def test_impossible_executions_are_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    assert compilers.refusal("off", 4, False) == ""
    assert "needs a GPU" in compilers.refusal("graphs", 1, False)
    assert "DEGREE 2" in compilers.refusal("graphs", 2, True)
    assert compilers.refusal("graphs", 1, True) == ""
    for command, reason in (("no-such-compiler", "No such file"), ("/bin/false", "no reason"), ("cat", "cat:")):
        monkeypatch.setenv("CXX", command)
        said = compilers.refusal("torch", 1, False)
        assert command in said and reason in said and "install g++" in said and "allowed without: off" in said


@pytest.mark.slow
def test_the_program_refuses_before_anything_runs(tmp_path: Any) -> None:
    golden = ROOT / "tests" / "golden" / "input.dat"
    settings = ["GROUPS=1", "DEGREE=1", "COMPILE=graphs"]
    job = subprocess.run(
        [sys.executable, BENCH, golden, "--set", *settings], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    if not torch.cuda.is_available():
        assert job.returncode == 2 and "COMPILE graphs needs a GPU; allowed here: off, torch" in job.stderr
        assert not list(tmp_path.iterdir())
