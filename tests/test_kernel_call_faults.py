"""Kernels that compute some calls only, while `[kernels]` times them: each is FAILED, and by the check for it."""

from typing import Any

import pytest
from kernel_call_faults import SKIPS, fewer_steps, half_of_the_rows, of_other_set, skipping
from sampled_parameters import one_in
from test_workload_kernels import SMALL, few_calls

from hpcai.kernels import conv2d, gemm
from hpcai.opcount.products import Product
from hpcai.workloads.kernels.checks import rows
from hpcai.workloads.kernels.record import KernelRow, KernelsRaw

pytestmark = pytest.mark.parallel(2)
MATRICES, LAYER = gemm.Shape(24, 33, 20), conv2d.Shape(2, 8, 9, 8, 12, (3, 3), (1, 1), (1, 1))
PRODUCTS = {
    "gemm": Product("gemm", "forward", MATRICES, "resnet8", 1, "fp32"),
    "int8": Product("gemm", "product", gemm.Shape(33, 33, 33), "square", 1, "int8"),
    "conv2d": Product("conv2d", "weight_gradient", LAYER, "resnet8", 1, "fp32"),
}
FAULTS = {name: skipping(skips) for name, skips in SKIPS.items()}
FAULTS |= {"computes the other set": of_other_set, "computes half of the rows": half_of_the_rows}
# Found before a call is timed.
AT_ONCE = {"never computes"}


def measured(subject: str) -> list[KernelRow]:
    """The rows of a product or a ceiling, with the processor of the ranks. Collective."""
    import torch
    from mpi4py import MPI

    from hpcai.preflight import processor_cycles
    from hpcai.workloads.kernels import measure
    from hpcai.workloads.kernels.ceiling_tasks import ceilings
    from hpcai.workloads.kernels.product_timing import MeasuringRanks
    from hpcai.workloads.kernels.product_timing import measured as timed

    world, cpu = MPI.COMM_WORLD, torch.device("cpu")
    measuring = MeasuringRanks(world, cpu, 1, 1)
    if subject in PRODUCTS:
        task = measure.task_of(PRODUCTS[subject], measure.Operands(1))
    else:
        facts = measure.Rank(1, 2**28, world.size)
        task = next(each for each in ceilings(measuring, facts) if each.names.kernel == subject)
    found, _ = timed(task, measuring)
    assert world.bcast(found) == found
    processor = processor_cycles.measured(world, cpu)
    raw = KernelsRaw(threads=1, ranks=world.size, missing=(), rows=tuple(found), processor=processor)
    return [*rows(SMALL, raw)]


def plant(monkeypatch: pytest.MonkeyPatch, subject: str, provider: str, fault: Any) -> None:
    from hpcai.kernels.providers import module_of

    kernel = PRODUCTS[subject].kernel if subject in PRODUCTS else subject
    module = module_of(kernel, provider, "cpu")
    monkeypatch.setattr(module, "prepare", fault(module.prepare))


def shorter_block_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks as in a run, without the pauses: two clocks agree on shorter ones only on a machine without other work."""
    from hpcai.preflight import block_timing

    monkeypatch.setattr(block_timing, "PAUSE", 0.0)
    monkeypatch.setattr(block_timing.seconds, "__defaults__", (block_timing.LEAST, block_timing.ROUNDS))


SUBJECTS = [("gemm", "custom"), ("gemm", "vendor"), ("int8", "custom"), ("conv2d", "custom"), ("conv2d", "vendor")]
SUBJECTS += [("fma_peak", "custom"), ("triad", "custom"), ("triad", "vendor")]


@pytest.mark.parametrize(("subject", "provider"), SUBJECTS)
def test_a_kernel_that_computes_every_call_passes(
    subject: str, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    few_calls(monkeypatch)
    shorter_block_pauses(monkeypatch)
    (row,) = (row for row in measured(subject) if row.provider == provider)
    assert row.verdict == "PASSED" and row.spot_residual is not None and row.spot_residual <= row.residual + 1
    assert row.spot_checks is not None and row.spot_checks >= 6 and row.first_seconds is not None


@pytest.mark.parametrize("fault", one_in(3, FAULTS))
@pytest.mark.parametrize(("subject", "provider"), SUBJECTS)
def test_a_kernel_that_skips_work_fails(
    subject: str, provider: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    few_calls(monkeypatch)
    shorter_block_pauses(monkeypatch)
    if (subject, provider) == ("conv2d", "vendor") and fault == "computes half of the rows":
        pytest.skip("TORCH TAKES NEW MEMORY FOR EACH RESULT: THERE IS NO HALF THAT STAYS")
    plant(monkeypatch, subject, provider, FAULTS[fault])
    for row in measured(subject):
        assert row.verdict == ("FAILED" if row.provider == provider else "PASSED"), row
        if row.provider == provider:
            limit = 0 if row.dtype == "int8" else 1
            assert row.spot_residual is not None and row.spot_residual > limit, "found between timed calls"
            assert fault not in AT_ONCE or row.residual > limit


@pytest.mark.slow
def test_fewer_steps_with_the_right_result_are_found_by_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "fma_peak", "custom", fewer_steps(64))
    (row,) = measured("fma_peak")
    assert (row.residual, row.spot_residual) == (0, 0)
    if row.bound is None:
        pytest.skip("UNKNOWN PROCESSOR: NO BOUND OF ITS RATES")
    assert row.verdict == "FAILED" and 1e9 * row.gflops > row.bound


@pytest.mark.slow
@pytest.mark.parametrize("subject", ["fma_peak", "triad"])
def test_a_time_that_is_too_short_is_found_by_the_bound(subject: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from hpcai.preflight import block_timing

    genuine = block_timing.block
    monkeypatch.setattr(block_timing, "block", lambda *arguments: genuine(*arguments) / 1000)
    for row in measured(subject):
        if row.bound is None:
            pytest.skip("UNKNOWN PROCESSOR: NO BOUND OF ITS RATES")
        assert row.verdict == "FAILED" and row.residual < 1
