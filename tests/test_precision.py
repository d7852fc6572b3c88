"""Precisions of the training: the types of computation, that each learns, that fp32 is unchanged, and refused ones."""

import warnings
from copy import deepcopy
from typing import Any

import pytest
import torch
from sampled_parameters import fast
from synchronisation_watch import epochs_watched
from tiny import CPU, GRAPH, SEED, SHAPE, alone, bits, training, unending
from torch.nn import functional

from hpcai.clock import Phases
from hpcai.formulas.precision import PRECISIONS
from hpcai.kernels.providers import Unavailable
from hpcai.machine import device as devices
from hpcai.models.module import build
from hpcai.train.loop import Training
from hpcai.train.precision import apply, kind_of, refusal, switched

COMPUTED = ("fp32", "fp16", "bf16", "pure16", "halffp16", "int8")  # on any CPU
SHORT = COMPUTED[1:]
BATCH = torch.randn(8, *SHAPE, generator=torch.Generator().manual_seed(3)).to(memory_format=torch.channels_last)


def mean_loss(trained: Training) -> float:
    return float(trained.state.progress.curve[-1].loss)


def weights(trained: Training) -> Any:
    return bits(dict(trained.state.module.named_parameters()))


@pytest.mark.parametrize("precision", fast(SHORT[:-1], SHORT))
def test_every_precision_learns_as_fp32_does(precision: str) -> None:
    exact, short = (training(alone(), 40, epochs=6, precision=name) for name in ("fp32", precision))
    for trained in (exact, short):
        trained.run(Phases(CPU), unending())
    first = exact.state.progress.curve[0].loss
    assert mean_loss(exact) < 0.8 * first
    assert mean_loss(short) == pytest.approx(mean_loss(exact), rel=0.1)
    assert weights(short) != weights(exact)
    assert abs(short.state.progress.curve[-1].correct - exact.state.progress.curve[-1].correct) <= 4
    assert short.state.progress.operations == exact.state.progress.operations
    assert (short.state.skipped_steps, short.state.skipped_samples) == (0, 0)


@pytest.mark.parametrize("precision", fast(COMPUTED[:-1], COMPUTED))
def test_layers_compute_in_the_type_of_the_precision(precision: str) -> None:
    module, kind = build(GRAPH, SEED), kind_of(precision)
    apply(precision, module, CPU)
    made: dict[str, torch.dtype] = {}
    for name, part in module.named_children():
        part.register_forward_hook(lambda _, inputs, output, name=name: made.update({name: output.dtype}))
    logits = module(BATCH)
    logits.sum().backward()
    assert logits.dtype == torch.float32
    assert set(made.values()) == {kind}
    for name, parameter in module.named_parameters():
        stored = kind if PRECISIONS[precision].pure and "norm" not in name else torch.float32
        assert parameter.dtype == parameter.grad.dtype == stored, name
    assert {value.dtype for value in module.buffers() if value.is_floating_point()} == {torch.float32}


@pytest.mark.parametrize("precision", ["pure16", "halffp16"])
def test_momentum_has_the_type_of_its_parameter_and_every_element_is_updated(precision: str) -> None:
    trained = training(alone(), precision=precision, learning_rate=100.0)
    before = [parameter.detach().clone() for parameter in trained.state.module.parameters()]
    ((x, y, _),) = trained.loader([trained.sampler.draw(trained.shard.step_positions(0))])
    trained._step(x, y)
    for parameter, old in zip(trained.state.module.parameters(), before, strict=True):
        velocity = trained.state.optimiser.state[parameter]["momentum_buffer"]
        assert velocity.dtype == parameter.dtype
        assert torch.equal(parameter == old, velocity == 0) or (parameter != old).float().mean() > 0.9


def test_fp32_is_not_modified(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = training(alone())
    assert trained.state.scaler is None
    parts = list(trained.state.module.modules())
    assert not any("forward" in vars(part) for part in parts)
    monkeypatch.setattr(torch.autocast, "__enter__", lambda self: pytest.fail("autocast"))
    trained.warm_up()
    trained.run(Phases(CPU), unending())
    with pytest.raises(pytest.fail.Exception):
        training(alone(), precision="bf16").warm_up()


@pytest.mark.parametrize("precision", fast(SHORT[:-1], SHORT))
def test_a_copy_computes_with_its_own_layers(precision: str) -> None:
    module = build(GRAPH, SEED)
    apply(precision, module, CPU)
    copy = deepcopy(module)
    with torch.no_grad():
        assert torch.equal(copy(BATCH), module(BATCH))
        for parameter in copy.parameters():
            parameter.zero_()
        assert not copy(BATCH).any() and module(BATCH).any()


@pytest.mark.parametrize("precision", fast(SHORT[:-1], SHORT))
def test_no_precision_waits_for_the_device(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with epochs_watched(monkeypatch) as waits:
        training(alone(), epochs=3, precision=precision).run(Phases(CPU), unending())
    allowed_waits = {"numpy"} if precision == "int8" else set()  # views of torch's memory for kernels on CPUs
    assert set(waits) <= allowed_waits


def test_precisions_that_a_cpu_lacks_are_refused_with_the_reason() -> None:
    assert [refusal(name, CPU) for name in COMPUTED] == [""] * 6
    reason = refusal("tf32", CPU)
    assert reason == "PRECISION tf32 on cpu: torch does not round the fp32 inputs of a product to tf32 there"


def test_fp32_that_is_computed_as_tf32_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hpcai.train.precision._rounds_to_tf32", lambda device: True)
    assert "rounded to tf32, though not asked to" in refusal.__wrapped__("fp32", CPU)
    assert refusal.__wrapped__("bf16", CPU) == ""


def test_a_precision_that_fails_its_probe_is_refused_with_torchs_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any) -> None:
        raise RuntimeError("no engine for this type\nand much more")

    monkeypatch.setattr(functional, "conv2d", broken)
    assert refusal.__wrapped__("fp16", CPU) == "PRECISION fp16 on cpu: torch says no engine for this type"


def test_int8_on_a_gpu_without_its_instructions_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(*arguments: Any) -> None:
        raise Unavailable("no instructions for int8")

    monkeypatch.setattr("hpcai.train.precision._try", lacking)
    monkeypatch.setattr(devices, "name", lambda device: "a GPU")
    assert refusal.__wrapped__("int8", torch.device("cuda")) == "PRECISION int8 on a GPU: no instructions for int8"


def test_tf32_is_switched_on_temporarily_without_warnings() -> None:
    def allowed() -> tuple[bool, bool]:
        return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32

    devices.allow_tf32(False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with switched("tf32"):
            assert allowed() == (True, True)
            with switched("fp32"):
                assert allowed() == (False, False)
            assert allowed() == (True, True)
    assert allowed() == (False, False)
