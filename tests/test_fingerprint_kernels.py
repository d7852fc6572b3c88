"""Fingerprints of tensors: every backend against the reference, in every type, also where they say nothing."""

from typing import Any

import numpy as np
import pytest
import torch

from hpcai.kernels.fingerprint import ELEMENTS, TYPES, reference, vendor

RUNS = {
    "normal": torch.randn(8, generator=torch.Generator().manual_seed(1)),
    "six": torch.randn(6, generator=torch.Generator().manual_seed(2)),
    "five": torch.randn(5, generator=torch.Generator().manual_seed(3)),
    "with three zeros": torch.tensor([1.0, 2.0, 0.0, 3.0, 0.0, 0.0, 6.0, 7.0]),
    "negative, with two zeros": -torch.tensor([1.0, 2.0, 0.0, 3.0, 0.0, 5.0, 6.0, 7.0]),
    "with an infinity": torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, float("inf")]),
    "with a NaN": torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, float("nan")]),
    "below the normal numbers": torch.full((8,), 2.0**-140),
    "of fp16 only below": torch.full((8,), 2.0**-20),
}


def runs(kind: str) -> list[torch.Tensor]:
    return [run.to(getattr(torch, kind)) for run in RUNS.values()]


def expected(kind: str) -> list[int]:
    return [reference.fingerprint(run.double().numpy(), torch.finfo(run.dtype).tiny) for run in runs(kind)]


def on_host(kind: str) -> list[int]:
    from hpcai.kernels.fingerprint import numba_cpu

    own = runs(kind)
    counts, elements = np.array([len(run) for run in own]), np.zeros((1, len(own), ELEMENTS))
    addresses, kinds = np.array([run.data_ptr() for run in own]), np.full(len(own), TYPES.index(kind))
    numba_cpu.gather(np.array([[addresses, kinds, counts]]), elements)
    for found, run in zip(elements[0], own, strict=True):
        assert np.array_equal(found[: len(run)], run.double().numpy(), equal_nan=True)
    found = np.empty(len(own), np.uint64)
    numba_cpu.fingerprints(elements[0], counts, np.full(len(own), torch.finfo(own[0].dtype).tiny), found)
    return [int(number) for number in found]


def by_torch(kind: str, device: str) -> list[int]:
    own = [run.to(device) for run in runs(kind)]
    elements = torch.zeros(len(own), ELEMENTS, dtype=torch.float64, device=device)
    vendor.gather(own, [row[: len(run)] for row, run in zip(elements, own, strict=True)])
    found = torch.empty(len(own), dtype=torch.int64, device=device)
    tiny = torch.full((len(own),), torch.finfo(own[0].dtype).tiny, dtype=torch.float64, device=device)
    vendor.fingerprints(elements, tiny, vendor.factors(elements.device), found)
    return [number % 2**64 for number in found.tolist()]


@pytest.mark.parametrize("kind", TYPES)
def test_every_backend_gives_the_numbers_of_the_reference(kind: str) -> None:
    wanted = expected(kind)
    assert on_host(kind) == by_torch(kind, "cpu") == wanted
    if torch.cuda.is_available():
        assert by_torch(kind, "cuda") == wanted
    assert all(wanted[index] for index in (0, 1, 4))
    assert not any(wanted[index] for index in (2, 3, 5, 6))
    assert (wanted[8] == 0) == (kind == "float16")


def test_one_bit_changes_a_fingerprint() -> None:
    run: Any = RUNS["normal"].double().numpy()
    for place in range(ELEMENTS):
        other = run.copy()
        other[place] = np.nextafter(np.float32(other[place]), np.float32(np.inf))
        assert reference.fingerprint(other, 1e-38) != reference.fingerprint(run, 1e-38)


@pytest.mark.parametrize("kind", TYPES)
def test_random_elements_of_any_type_have_fingerprints_of_their_own(kind: str) -> None:
    numbers = torch.randn(2**17, ELEMENTS, generator=torch.Generator().manual_seed(4)).to(getattr(torch, kind))
    found = torch.empty(len(numbers), dtype=torch.int64)
    smallest = torch.zeros(len(numbers), dtype=torch.float64)
    vendor.fingerprints(numbers.double(), smallest, vendor.factors(found.device), found)
    assert len(found.unique()) == len(numbers)


def test_an_address_of_0_gives_zeros() -> None:
    from hpcai.kernels.fingerprint import numba_cpu

    elements = np.full((1, 1, ELEMENTS), 9.0)
    numba_cpu.gather(np.array([[[0], [0], [ELEMENTS]]]), elements)
    assert not elements.any()
