"""The estimate for a test of collectives: the plan against the memory and time of real ranks."""

import pytest
import torch

from hpcai.estimate import Rank
from hpcai.inputfile import Case
from hpcai.workloads.comm.plan import COMPARED, PATTERNS, POOL, TIMED, comm_memory, comm_seconds

CPU = torch.device("cpu")
HOST, GPU = Rank(threads=1, free=2**34), Rank(threads=1, free=2**34, accelerated=True)
MIB = 2**20


def case_of(groups: int, degree: int, *sizes: int) -> Case:
    return Case(1, "comm", {"GROUPS": groups, "DEGREE": degree, "SIZES": sizes, "MAPPING": "row"})


def test_the_plan_uses_the_numbers_of_the_measurement() -> None:
    from hpcai.comm import buffers, collective_timing, test_pattern

    assert TIMED == collective_timing.SECONDS
    assert 4 * buffers.pool_elements(2**28) == pytest.approx(POOL * 2**28, rel=1e-3)
    made = buffers.CollectivePatterns(3, 1, CPU)
    patterns = [*made._own, *made._sums, *made._plain]
    assert sum(pattern._numbers.nbytes for pattern in patterns) == PATTERNS
    assert COMPARED == 5 * test_pattern.MOST_ELEMENTS


def test_memory_grows_with_the_largest_size_only() -> None:
    small, large = comm_memory(case_of(1, 2, 1024), HOST), comm_memory(case_of(1, 2, 1024, 2**28), HOST)
    assert comm_memory(case_of(4, 8, 2**28, 2**20, 2**20), HOST) == pytest.approx(large)
    assert large["buffers"] == 3 * 2**28 and 2**28 < large["backend"] < 7 * 2**28
    assert sum(small.values()) < 50 * MIB
    assert list(comm_memory(case_of(1, 1, 2**28), HOST)) == ["other"]
    assert comm_memory(case_of(1, 2, 2**28), GPU)["backend"] == pytest.approx(256 * MIB + 2.5 * 2**28)


def test_seconds_count_the_scopes_that_differ() -> None:
    world = comm_seconds(case_of(4, 1, 1024, 2**20))["collectives"]  # four collectives
    assert comm_seconds(case_of(1, 4, 1024, 2**20))["collectives"] == pytest.approx(6 / 4 * world)  # two in phases
    assert comm_seconds(case_of(2, 2, 1024, 2**20))["collectives"] == pytest.approx((4 + 6 + 4) / 4 * world)
    assert comm_seconds(case_of(1, 1, 1024))["collectives"] == 0
    assert world > 2 * 4 * 2 * TIMED


@pytest.mark.exhaustive
@pytest.mark.alone
@pytest.mark.parallel(2)
def test_ranks_need_at_most_the_planned_memory_and_not_much_less() -> None:
    from hpcai.comm import world as worlds
    from hpcai.comm.shutdown import Shutdown
    from hpcai.machine import memory
    from hpcai.workloads.comm import measure

    world = worlds.join()
    shutdown = Shutdown(world.comm, 0.0)
    if world.size != 2 or not memory.reset_peak():
        return
    memory.retain_freed_memory()
    measure.run(case_of(1, 2, 1024), world, CPU, lambda text, share: None, shutdown)
    largest = 2**24
    memory.release_unused()
    before = memory.resident()
    measure.run(case_of(1, 2, largest), world, CPU, lambda text, share: None, shutdown)
    planned = sum(comm_memory(case_of(1, 2, largest), HOST).values())
    assert 0.5 * planned < memory.peak() - before < planned
    shutdown.close()
