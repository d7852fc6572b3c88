"""The numbers that collectives carry: exact sums, different at every position, and every wrong one counted."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcai.comm.buffers import IN_PLACE, UNWRITTEN, CollectivePatterns, divide, pool_elements
from hpcai.comm.test_pattern import BLOCK, EXACT, VARIANTS, Pattern, total_weight, values, weight
from hpcai.formulas.collectives import COLLECTIVES, elements

CPU = torch.device("cpu")


def numbers(variant: int, start: int, count: int, factor: int = 1, different: int = BLOCK) -> torch.Tensor:
    vectors = torch.full((1, count), UNWRITTEN)
    Pattern(variant, factor, different, CPU).fill(vectors, start)
    return vectors[0]


@pytest.mark.parametrize("variant", range(VARIANTS))
def test_sums_of_weights_are_known_in_closed_form(variant: int) -> None:
    total = 0
    for ranks in range(400):
        assert total_weight(ranks, variant) == total
        total += weight(ranks, variant)


def test_weights_of_both_variants_identify_49_ranks() -> None:
    assert len({tuple(weight(rank, variant) for variant in range(VARIANTS)) for rank in range(49)}) == 49
    assert min(weight(rank, variant) for rank in range(1000) for variant in range(VARIANTS)) > 0


@given(st.integers(1, 10**7))
def test_no_sum_exceeds_the_exact_range_of_fp32(ranks: int) -> None:
    largest = values(ranks) * max(total_weight(ranks, variant) for variant in range(VARIANTS))
    assert largest < EXACT or values(ranks) == 1
    assert values(ranks) > 1 or ranks > 10**6


@pytest.mark.parametrize("ranks", [1, 2, 3, 7, 50, 100])
@pytest.mark.parametrize("variant", range(VARIANTS))
def test_contributions_add_up_exactly_in_any_order(ranks: int, variant: int) -> None:
    start, count = 3 * BLOCK - 100, BLOCK + 300
    total = torch.zeros(count)
    for rank in reversed(range(ranks)):
        total += numbers(variant, start, count, weight(rank, variant), values(ranks))
    assert torch.equal(total, numbers(variant, start, count, total_weight(ranks, variant), values(ranks)))
    assert total.min() > 0 and total.max() < EXACT


def test_no_two_positions_are_equal_in_both_variants() -> None:
    count = 4 * BLOCK + 7
    both = numbers(0, 0, count).to(torch.int64) * 2**20 + numbers(1, 0, count).to(torch.int64)
    assert len(np.unique(both.numpy())) == count
    neighbours = torch.stack([numbers(0, 0, count), numbers(1, 0, count)])
    assert (neighbours[:, 1:] != neighbours[:, :-1]).all()
    assert (neighbours[0] != neighbours[1]).all()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 3 * BLOCK), st.integers(1, 70 * BLOCK), st.integers(0, 1))
def test_any_part_equals_the_same_part_of_the_whole(start: int, count: int, variant: int) -> None:
    whole = numbers(variant, 0, 73 * BLOCK)
    part = whole[start : start + count]
    pattern = Pattern(variant, 1, BLOCK, CPU)
    vectors = torch.full((2, len(part)), UNWRITTEN)
    pattern.fill(vectors, start)
    assert torch.equal(vectors, part.expand(2, -1))
    assert pattern.wrong(vectors, start) == 0


def test_every_wrong_element_is_counted_whatever_its_value() -> None:
    pattern = Pattern(1, 3, BLOCK, CPU)
    vectors = torch.empty(5, 2 * BLOCK + 9)
    pattern.fill(vectors, 40)
    for row, column, value in ((0, 0, 0.0), (2, BLOCK, float("nan")), (4, -1, UNWRITTEN), (4, 5, float("inf"))):
        vectors[row, column] = value
    assert pattern.wrong(vectors, 40) == 4
    pattern.fill(vectors, 40)
    vectors[3] = vectors[3].roll(1)
    assert pattern.wrong(vectors, 40) == vectors.shape[1]


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize(("nbytes", "ranks"), [(4 * 2, 2), (1000, 2), (4 * 2**18, 2), (4 * 2**18, 5), (2**16, 64)])
def test_the_pool_has_room_for_two_calls_of_the_largest_size(collective: str, nbytes: int, ranks: int) -> None:
    pool = torch.empty(pool_elements(nbytes))
    count = elements(collective, nbytes, ranks)
    if count == 0:
        return
    slots = divide(pool, collective, count, ranks)
    assert slots.count >= 2
    sent = {"all_gather": count}.get(collective, nbytes // 4 // ranks * ranks if ranks > 1 else nbytes // 4)
    assert slots.receive.shape[1] == (nbytes // 4 // ranks * ranks if collective == "all_gather" else count)
    assert collective not in ("all_gather", "reduce_scatter") or slots.send.shape[1] == sent
    pool.zero_()
    slots.receive.fill_(1.0)
    slots.send.fill_(2.0)
    in_place = collective in (*IN_PLACE, "broadcast")
    assert bool((slots.receive == (2.0 if in_place else 1.0)).all()) and bool((slots.send == 2.0).all())


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_neighbouring_calls_and_repetitions_carry_different_numbers(collective: str) -> None:
    payload = CollectivePatterns(2, 0, CPU)
    slots = divide(torch.empty(2000), collective, 10, 2)
    payload.fill(slots, collective, 4)
    first = slots.send[:4].clone()
    assert torch.equal(first[0], first[2]) and torch.equal(first[1], first[3]) and (first[0] != first[1]).all()
    payload.fill(slots, collective, 4, first=1)
    assert torch.equal(slots.send[0], first[1]) and torch.equal(slots.send[1], first[0])
    if slots.send is not slots.receive:
        assert (slots.receive[:4] == UNWRITTEN).all()
        assert payload.wrong(slots, collective, 4, first=1) == 4 * slots.receive.shape[1]
