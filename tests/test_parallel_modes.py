"""KEYs of the parallel modes: SPLIT pairs with the grid, and what cannot be divided is refused by name and reason."""

import pytest
from sample_input import ensemble
from test_inputfile_refused import refusal

from hpcai.inputfile import Case, parse
from hpcai.inputfile.split import Cut, Split
from hpcai.preflight.parallel_modes import parallel_refusal

GRIDS = ("1 2 GROUPS", "4 2 DEGREE", "mixed PARALLEL")


def cases(*lines: str, ranks: int = 4) -> list[Case]:
    return parse(ensemble(*lines)).cases(ranks)


def test_a_split_is_that_of_its_grid() -> None:
    found = [(case.degree, case.split) for case in cases(*GRIDS, "2x1x2 1x2x1 SPLIT", "8 BATCH")]
    assert found == [(4, Split(2, 1, 2)), (2, Split(1, 2, 1))]
    found = [(case.degree, case.split.ranks) for case in cases(*GRIDS, "1x2x1 SPLIT")]
    assert found == [(4, 2), (2, 2)]  # one value is for all grids; a later check refuses the first


def test_sweeps_multiply_the_grids_with_their_splits() -> None:
    found = cases(*GRIDS, "2x1x2 1x2x1 SPLIT", "8 16 BATCH")
    assert [(case.degree, case.batch, case.cut) for case in found] == [
        (4, 8, Cut(2, 1, 2)), (4, 16, Cut(2, 1, 4)), (2, 8, Cut(1, 2, 16)), (2, 16, Cut(1, 2, 32)),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ((*GRIDS, "2x1x2 1x2x1 4x1x1 SPLIT"), "SPLIT has 3, GROUPS 2 values; allowed: one, or one for each of GROUPS"),
        (("2x1x2 SPLIT",), "SPLIT 2x1x2 has no effect with PARALLEL data; allowed: PARALLEL mixed, or SPLIT 1x1x1"),
        (("tensor PARALLEL", "4 CHUNKS"), "CHUNKS 4 has no effect with PARALLEL tensor; allowed: PARALLEL pipeline or"),
        (("mixed PARALLEL", "2x2 SPLIT"), "SPLIT: 2x2 is no split; allowed: replicas x shards x stages, as 2x1x2"),
        (("mixed PARALLEL", "9999x99999x99 SPLIT"), "SPLIT: 9999x99999x99 is no split"),  # too many ranks
        (("expert PARALLEL",), "PARALLEL: expert is unknown"),
    ],
)
def test_values_that_do_not_fit_are_refused(lines: tuple[str, ...], says: str) -> None:
    assert says in refusal(ensemble(*lines))


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (("mixed PARALLEL", "2x1x2 SPLIT"), ""),
        (("mixed PARALLEL", "2x1x1 SPLIT"), "SPLIT 2x1x1: 2 ranks, DEGREE is 4; allowed: a product of"),
        (("mixed PARALLEL", "1x1x999999999 SPLIT"), "SPLIT 1x1x999999999: 999999999 ranks, DEGREE is 4"),  # at once
        (("pipeline PARALLEL", "5 CHUNKS"), "CHUNKS 5: a replica has 32 samples a step; allowed: divisors of 32"),
        (("pipeline PARALLEL", "32 CHUNKS"), "CHUNKS 32: a replica has 32 samples a step"),
        (("pipeline PARALLEL", "16 CHUNKS", "int8 PRECISION", "lamb OPTIMISER", "int8 WIRE"), ""),
        (("pipeline PARALLEL", "auto KERNELS"), "KERNELS auto: layers are timed in a step of the whole network"),
        (("mixed PARALLEL", "1x4x1 SPLIT", "auto KERNELS"), ""),
        (("mixed PARALLEL", "1x2x2 SPLIT", "int8 PRECISION"), "PRECISION int8: bytes have one scale a tensor"),
        (("mixed PARALLEL", "4x1x1 SPLIT", "int8 PRECISION"), ""),
        (("pipeline PARALLEL", "graphs COMPILE"), "COMPILE graphs: layers wait for other ranks; allowed: COMPILE off"),
    ],
)
def test_what_cannot_be_divided_is_refused_by_name_and_reason(lines: tuple[str, ...], reason: str) -> None:
    (case,) = cases("1 GROUPS", "4 DEGREE", "8 BATCH", *lines)
    refused = parallel_refusal(case)
    assert reason in refused and bool(refused) == bool(reason)


def test_a_model_of_one_rank_trains_on_any_batch_whatever_the_mode() -> None:
    for lines in (("tensor PARALLEL",), ("mixed PARALLEL", "1x1x1 SPLIT"), ("pipeline PARALLEL",)):
        (case,) = cases("1 GROUPS", "1 DEGREE", "1 BATCH", *lines)
        assert not parallel_refusal(case)


def test_micro_batches_of_very_many_stages_are_found_at_once() -> None:
    (case,) = cases("1 GROUPS", "1000000000 DEGREE", "7 BATCH", "pipeline PARALLEL", ranks=10**9)
    assert case.chunks == 35 * 10**8
