"""The estimate for a case of `[kernels]`: pure, above the real memory, and not far above."""

from pathlib import Path

import pytest
from sample_kernel_rows import case_of

from hpcai.estimate import Rank
from hpcai.machine import caches
from hpcai.machine.device import MOST_CACHED
from hpcai.opcount.products import of_network, squares
from hpcai.workloads.kernels import plan
from hpcai.workloads.kernels.plan import automatic_sizes, kernels_memory, kernels_seconds, triad_length

MIB = 2**20
CONSTANT = plan.PACKED + plan.SMALL_OBJECTS  # of which small cases need less
RANK = Rank(threads=1, free=8 * 2**30, ranks=2)


def test_sizes_of_auto_are_limited_by_memory_and_a_second() -> None:
    assert automatic_sizes(RANK, 100e9) == [512, 1024, 2048]
    assert automatic_sizes(RANK, 8 * 100e9) == [512, 1024, 2048, 4096]
    assert automatic_sizes(RANK, 1e6) == [512]
    small = Rank(1, 600 * MIB)
    assert automatic_sizes(small, 1e15) == [512, 1024]
    (largest,) = (max(sum(plan.needs(p, small).values()) for p in squares([n])) for n in [1024])
    assert largest <= small.free // 4


def test_vectors_of_the_triad_exceed_the_caches_but_not_the_memory() -> None:
    assert triad_length(Rank(1, 2**40, 1, 2**30)) * 24 == pytest.approx(4 * 2**30, rel=1e-6)
    assert triad_length(Rank(1, 2**40, 8, 2**30)) * 24 * 8 == pytest.approx(4 * 2**30, rel=1e-6)
    assert triad_length(Rank(1, 2**28, 1, 2**30)) * 8 * 4 <= 2**28 // 8
    assert triad_length(Rank(1, 2**40, 1, 2**30, True)) == 2**27
    assert triad_length(Rank(1, 0)) == 1


def test_caches_of_a_node_are_counted_once(tmp_path: Path) -> None:
    def cache(cpu: int, index: int, level: str, size: str, sharers: str) -> None:
        folder = tmp_path / f"cpu{cpu}" / "cache" / f"index{index}"
        folder.mkdir(parents=True)
        for name, value in (("level", level), ("size", size), ("shared_cpu_list", sharers)):
            (folder / name).write_text(f"{value}\n")

    assert caches.last_level(tmp_path) == 2**25
    for cpu, sharers in enumerate(("0-1", "0-1", "2-3", "2-3")):
        cache(cpu, 0, "2", "1024K", f"{cpu}")
        cache(cpu, 1, "3", "16M", sharers)
    (tmp_path / "cpu3/cache/index1/size").write_text("unknown")
    assert caches.last_level(tmp_path) == 2 * 16 * MIB
    assert caches.last_level() >= 2**15


def test_the_plan_is_that_of_the_largest_product() -> None:
    few, many = (kernels_memory(case_of(*shapes), RANK) for shapes in (["64"], ["64", "2048"]))
    assert sum(few.values()) < sum(many.values())
    assert many["operands"] == 3 * 8 * 2048**2 and many["results"] == 2 * 8 * 2048**2
    automatic = kernels_memory(case_of("auto"), RANK)
    assert automatic == many
    on_gpu = kernels_memory(case_of("2048"), Rank(1, 2**28, accelerated=True))
    # Each provider has its own operands there, and a result.
    assert (on_gpu["operands"], on_gpu["results"]) == (2 * 3 * 8 * 2048**2, 2 * 8 * 2048**2)
    assert "check" not in on_gpu and on_gpu["caches"] == MOST_CACHED


def test_types_of_tensor_cores_are_planned_on_gpus_alone() -> None:
    gpu = Rank(1, 2**40, accelerated=True)
    (halves,) = of_network("resnet8", 4, dtype="bf16")[:1]
    (whole,) = of_network("resnet8", 4)[:1]
    for product, share in ((halves, 0.5), (whole, 1.0)):
        assert plan.needs(product, gpu)["operands"] == share * plan.needs(whole, gpu)["operands"]
    assert plan.needs(halves, RANK)["operands"] == plan.needs(whole, RANK)["operands"], "drawn in fp32"
    named = case_of("resnet8", types=("fp32", "bf16"))
    plain = case_of("resnet8")
    assert kernels_seconds(named, RANK) == kernels_seconds(plain, RANK)
    assert kernels_seconds(named, gpu)["checks"] == pytest.approx(2 * kernels_seconds(plain, gpu)["checks"])
    assert kernels_seconds(plain, gpu)["ceilings"] > kernels_seconds(plain, RANK)["ceilings"]


def test_seconds_grow_with_the_work() -> None:
    assert sum(kernels_seconds(case_of("64"), RANK).values()) < 4
    one, two = (kernels_seconds(case_of("4096"), Rank(threads, 2**40))["kernels"] for threads in (1, 2))
    assert 1.5 < one / two <= 2.1


@pytest.mark.exhaustive
@pytest.mark.alone
@pytest.mark.parallel(1)
def test_memory_of_real_cases_is_below_its_plan_and_not_far_below(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from test_workload_kernels import few_calls, ranks

    from hpcai.machine import memory
    from hpcai.workloads.kernels import ceiling_tasks, measure
    from hpcai.workloads.kernels.product_timing import MeasuringRanks

    few_calls(monkeypatch)
    monkeypatch.setattr(ceiling_tasks, "triad_length", lambda rank: 2**16)
    monkeypatch.setattr(plan, "triad_length", lambda rank: 2**16)
    memory.retain_freed_memory()
    cpu = torch.device("cpu")
    with ranks() as (world, shutdown):
        if not memory.reset_peak():
            pytest.skip("NO PEAK OF MEMORY TO BEGIN ANEW: PLANS NOT HELD AGAINST IT")
        measure.run(case_of("33", "resnet8", batch=2), world, cpu, lambda *words: None, shutdown)  # loads all libraries
        memory.release_unused()
        base = memory.resident()
        for case in (case_of("resnet8", batch=128), case_of("2400")):
            memory.release_unused()
            memory.reset_peak()
            measure.run(case, world, cpu, lambda *words: None, shutdown)
            used, rank = memory.peak() - base, measure.facts(world, MeasuringRanks(world.comm, cpu, 1, 1))
            planned = sum(kernels_memory(case, rank).values())
            assert used <= planned <= 1.4 * used + CONSTANT, (case["SHAPES"], used / MIB, planned / MIB)


def test_networks_are_planned_at_their_batch() -> None:
    plans = [sum(kernels_memory(case_of("resnet18", batch=batch), RANK).values()) for batch in (8, 32)]
    assert plans[0] < plans[1]
    assert len({product.shape for product in of_network("resnet18", 8)}) > 10
