"""The measuring of `[kernels]` on real ranks: all products are checked, timed and reported, wrong ones FAILED."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import numpy as np
import pytest
from msgspec import convert
from sample_kernel_rows import case_of
from sample_records import MEMORY, environment, plain

from hpcai.inputfile import Case
from hpcai.results.claim import Subject, violated
from hpcai.results.measured import Before, Measured
from hpcai.workloads.kernels.checks import build, rows, verdict
from hpcai.workloads.kernels.claims import CLAIMS
from hpcai.workloads.kernels.lines import block
from hpcai.workloads.kernels.record import KernelsRaw, MissingKernel
from hpcai.workloads.kernels.scores import ceilings

SMALL = case_of("33", "resnet8", batch=2)
DECODER = case_of("decoder2x64", batch=1)
Reported = list[tuple[str, float]]


@contextmanager
def ranks() -> Iterator[tuple[Any, Any]]:
    """All ranks, and a run that is not asked to end."""
    from mpi4py import MPI

    from hpcai.comm.shutdown import Shutdown
    from hpcai.comm.world import World

    world = World(MPI.COMM_WORLD, MPI.COMM_WORLD.Split_type(MPI.COMM_TYPE_SHARED), "host")
    shutdown = Shutdown(world.comm, 0.0)
    yield world, shutdown
    shutdown.close()


def measured(case: Case, reported: Reported | None = None) -> KernelsRaw:
    """The measurement of a case, which must be the same on every rank."""
    import torch

    from hpcai.workloads.kernels import measure

    with ranks() as (world, shutdown):
        reported = [] if reported is None else reported
        raw = measure.run(case, world, torch.device("cpu"), lambda *words: reported.append(words), shutdown)
        assert isinstance(raw, KernelsRaw)
        assert world.comm.bcast(raw) == raw == convert(plain(raw), KernelsRaw)
        subject = Subject(case, build(case, Measured(raw, MEMORY), Before()), environment(ranks=world.size))
        assert list(violated(CLAIMS, subject)) == []
    return raw


def few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    from hpcai.preflight import block_timing
    from hpcai.workloads.kernels import ceiling_tasks

    monkeypatch.setattr(block_timing, "PAUSE", 0.0)
    monkeypatch.setattr(block_timing.seconds, "__defaults__", (0.002, 1))
    monkeypatch.setattr(ceiling_tasks, "STEPS", 2**12)


@pytest.mark.slow
@pytest.mark.parallel(2)
def test_all_requested_products_are_measured_and_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    few_calls(monkeypatch)
    threads, reported = torch.get_num_threads(), Reported()
    raw = measured(SMALL, reported)
    found = rows(SMALL, raw)
    assert verdict(found) == "PASSED" and raw.missing == ()
    assert raw.threads == threads == torch.get_num_threads()
    variants = {row.variant for row in found if (row.kernel, row.provider) == ("conv2d", "vendor")}
    assert variants <= {"contiguous", "channels_last"}
    assert all(row.ratio and row.ratio > 0 for row in found if row.of != "ceiling")
    highest = ceilings(found)
    assert all((highest.fma_peak, highest.gemm, highest.convolution, highest.triad))
    assert [share for _, share in reported] == sorted(share for _, share in reported) and 0.9 < reported[-1][1] < 1
    assert reported[0][0].startswith("fma_peak") and reported[0][1] == 0
    assert "Kernels, test 3" in block(build(SMALL, Measured(raw, MEMORY), Before()), found)


@pytest.mark.exhaustive
@pytest.mark.parallel(2)
def test_products_and_attention_of_a_decoder_are_measured_and_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    few_calls(monkeypatch)
    found = rows(DECODER, measured(DECODER))
    assert verdict(found) == "PASSED"
    attention = {(row.direction, row.provider) for row in found if row.kernel == "attention"}
    assert attention == {*product(("forward", "input_gradient"), ("custom", "vendor"))}


def spoiled(fault: Callable[[Any], None], prepare: Callable[..., Any]) -> Callable[..., Any]:
    """A backend whose results are wrong."""

    def prepared(*arguments: Any) -> Any:
        return [way._replace(result=lambda way=way: changed(way.result())) for way in prepare(*arguments)]

    def changed(result: Any) -> Any:
        copy = np.array(result, order="C")  # so that its elements are contiguous
        fault(copy)
        return copy

    return prepared


def an_element(C: Any) -> None:
    C.reshape(-1)[-1] += 1


def on_one_rank(C: Any) -> None:
    from mpi4py import MPI

    C.reshape(-1)[0] *= 1 + (MPI.COMM_WORLD.rank == MPI.COMM_WORLD.size - 1)


@pytest.mark.slow
@pytest.mark.parallel(2)
def test_wrong_kernels_fail_and_the_others_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    from hpcai.kernels.conv2d import vendor
    from hpcai.kernels.fma_peak import numba_cpu as fma_peak
    from hpcai.kernels.gemm import numba_cpu as gemm
    from hpcai.kernels.triad import vendor as triad

    few_calls(monkeypatch)
    for module, fault in ((vendor, on_one_rank), (gemm, an_element), (triad, an_element), (fma_peak, on_one_rank)):
        monkeypatch.setattr(module, "prepare", spoiled(fault, module.prepare))
    found = rows(SMALL, measured(SMALL))
    wrong = {("conv2d", "vendor"), ("gemm", "custom"), ("triad", "vendor"), ("fma_peak", "custom")}
    failed = {(row.kernel, row.provider) for row in found if row.verdict == "FAILED"}
    passed = {(row.kernel, row.provider) for row in found if row.verdict == "PASSED"}
    assert failed == wrong
    assert passed == {("conv2d", "custom"), ("gemm", "vendor"), ("triad", "custom")}
    assert {row.residual for row in found if (row.dtype, row.provider) == ("int8", "custom")} == {1}
    assert verdict(found) == "FAILED"
    assert ceilings(found).fma_peak is None


@pytest.mark.exhaustive
@pytest.mark.parallel(2)
def test_squares_of_auto_are_measured_and_unavailable_types_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    from mpi4py import MPI

    from hpcai.kernels.gemm import vendor
    from hpcai.kernels.providers import Unavailable
    from hpcai.workloads.kernels import plan

    few_calls(monkeypatch)
    monkeypatch.setattr(plan, "LONGEST", 1e-9)  # seconds of a product: the smallest square is chosen
    prepare = vendor.prepare

    def no_bytes(shape: Any, direction: str, data: Any, *rest: Any) -> Any:
        if data.w.dtype == np.int8 and MPI.COMM_WORLD.rank == MPI.COMM_WORLD.size - 1:
            raise Unavailable("no bytes on the last rank")
        return prepare(shape, direction, data, *rest)

    monkeypatch.setattr(vendor, "prepare", no_bytes)
    case = case_of("auto", "20", "auto")
    raw = measured(case)
    shapes = dict.fromkeys(row.shape for row in raw.rows if row.of == "square")
    assert list(shapes) == ["m20 n20 k20", "m512 n512 k512"]
    reason = MissingKernel(kernel="gemm", dtype="int8", provider="vendor", why="no bytes on the last rank")
    assert raw.missing == (reason,)
    assert verdict(rows(case, raw)) == "PASSED"


@pytest.mark.exhaustive
@pytest.mark.parallel(2)
def test_types_of_tensor_cores_are_not_measured_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    few_calls(monkeypatch)
    case = case_of("33", "resnet8", batch=2, types=("bf16", "tf32"))
    raw = measured(case)
    assert {row.dtype for row in raw.rows if row.of != "ceiling"} == {"fp64", "int8"}
    reported = {(each.kernel, each.dtype, each.provider) for each in raw.missing}
    assert reported == {*product(("gemm", "conv2d"), ("bf16", "tf32"), ("custom", "vendor"))}
    assert all(each.why == f"{each.dtype} is measured on GPUs; this is a CPU" for each in raw.missing)
    assert verdict(rows(case, raw)) == "PASSED"


@pytest.mark.slow
@pytest.mark.parallel(2)
def test_an_early_end_keeps_the_measured_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from hpcai.machine import signals
    from hpcai.results.measured import Stopped
    from hpcai.workloads.kernels import measure

    few_calls(monkeypatch)
    with ranks() as (world, shutdown):

        def report(text: str, share: float) -> None:
            if text.startswith("triad") and world.rank == world.size - 1:
                monkeypatch.setattr(signals, "_caught", {"SIGTERM": 0.0})

        stopped = measure.run(SMALL, world, torch.device("cpu"), report, shutdown)
    assert isinstance(stopped, Stopped)
    assert [row.kernel for row in stopped.raw.rows] == ["fma_peak", "fma_peak", "triad", "triad"]


@pytest.mark.slow
@pytest.mark.parallel(2)
def test_providers_are_timed_in_interleaved_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from mpi4py import MPI

    from hpcai.preflight import block_timing
    from hpcai.preflight.block_timing import Rotation

    made: list[str] = []
    calls = {name: Rotation((lambda name=name: made.append(name),)) for name in ("one", "other")}
    world, cpu = MPI.COMM_WORLD, torch.device("cpu")
    taken = block_timing.seconds(calls, world, cpu, 0.001, rounds=3)
    assert all(0 < seconds < 1 for seconds in taken.values()) and world.bcast(taken) == taken
    alternation = [name for place, name in enumerate(made) if place == 0 or made[place - 1] != name]
    assert alternation == ["one", "other"] * 3 and len(made) > 2 * 6
    slow = block_timing.seconds({"one": Rotation((lambda: made.append("slow"),))}, world, cpu, 0.0, rounds=4)
    assert slow["one"] > 0 and made.count("slow") == 8
    monkeypatch.setattr(block_timing, "LONG", 0.0)
    long = block_timing.seconds({"one": Rotation((lambda: made.append("long"),))}, world, cpu, 0.0, rounds=4)
    assert long["one"] > 0 and made.count("long") == 4
