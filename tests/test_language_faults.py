"""Faults planted into trainings of language models: each turns a verdict of the program, a leak that of the ceiling."""

import json
from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from unittest.mock import patch

import pytest
import torch
from fault_runs import CEILING, CLAIMS, DELIVERED, DEVIATION, FAULTY, GRADIENT, LOST, NETWORK, OF_CONTENT, SAME
from fault_runs import VENDOR_LOSS as LOSS
from launch import mpirun, run_job
from tiny import CPU, alone, unending
from torch.nn import functional

from hpcai import networks
from hpcai.clock import Phases
from hpcai.data import catalog
from hpcai.data.dataset_paths import GENERATED
from hpcai.formulas.score import paired_errors
from hpcai.inputfile import Case, parse
from hpcai.record.check_declarations import MOST_ABOVE
from hpcai.train.state import CurvePoint
from hpcai.workloads.language import measure

INPUT = """\
Generated text
Each learning rate is a test of its own
[language]
generated         DATASET
decoder2x64       NETWORK
16                RESOLUTION
{samples}         SAMPLES
1                 GROUPS
{degree}          DEGREE
8                 BATCH
{epochs}          EPOCHS
0                 WARMUP
{rates}           LEARNRATE
"""
# One model on two ranks: fault, and the checks that fail.
FOUND = {
    "none": set(),
    "positions_left_out": {NETWORK},
    "mask_off_by_one": {NETWORK},
    "next_bytes_of_another_sequence": {DELIVERED},
    "half_of_the_bits": {CLAIMS},
}
# One model on one rank by custom kernels.
FOUND_IN_KERNELS = {
    "none": set(),
    "queries_and_keys_exchanged": {NETWORK, LOSS},
    "gradient_of_keys_lost": {GRADIENT},
    "gradient_of_a_norm_lacks_a_term": {GRADIENT},
    "gradient_of_a_sum_lost": {GRADIENT, LOSS},
}
# The same in bf16, in which a sum and its norm are torch's.
FOUND_IN_16_BITS = {"none": set(), "queries_and_keys_exchanged": {NETWORK}, "gradient_of_keys_lost": {GRADIENT}}
REPEATED = {DEVIATION, LOST}  # steps repeated by the vendor's kernels find faults of gradients as well


@pytest.fixture(scope="module")
def by_custom_kernels(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The tests of one job with all faults of custom kernels."""
    return planted(tmp_path_factory, FOUND_IN_KERNELS, 1, "KERNELS=custom")


@pytest.mark.exhaustive
@pytest.mark.parametrize("fault", FOUND_IN_KERNELS)
def test_each_fault_of_a_custom_kernel_is_found(fault: str, by_custom_kernels: list[dict[str, Any]]) -> None:
    test = by_custom_kernels[[*FOUND_IN_KERNELS].index(fault)]
    failed = {check["name"] for check in test["checks"] if check["verdict"] == "FAILED"}
    assert failed - REPEATED == FOUND_IN_KERNELS[fault]
    assert test["verdict"] == ("FAILED" if FOUND_IN_KERNELS[fault] else "PASSED")


@pytest.mark.slow
def test_faults_of_attention_are_found_in_16_bits(tmp_path_factory: pytest.TempPathFactory) -> None:
    tests = planted(tmp_path_factory, FOUND_IN_16_BITS, 1, "KERNELS=custom", "PRECISION=bf16")
    failed = [{check["name"] for check in test["checks"] if check["verdict"] == "FAILED"} for test in tests]
    assert [found - REPEATED for found in failed] == [*FOUND_IN_16_BITS.values()]


# One model on two ranks with CLIP, by data and as two shards, of which more is allowed to rounding.
OF_CLIPPING = {"none": set(), "gradients_not_clipped": {DEVIATION}, "norm_of_one_tensor": {DEVIATION}}
OF_CLIPPED_SHARDS = {**OF_CLIPPING, "norm_of_one_tensor": {LOST}}
# One model of two stages with CLIP, which both have the weights of the embedding.
OF_STAGES = {
    "none": set(),
    "tied_gradients_not_added": {SAME, DEVIATION},
    "gradient_of_one_copy": {DEVIATION},
    "norm_of_both_copies": {DEVIATION},
}
# One model of two shards: the checks that fail at least.
OF_SHARDS = {
    "none": set(),
    "summand_of_a_rank_dropped": {DEVIATION},
    "gradient_of_divided_rows_not_summed": {DEVIATION},
}


@pytest.fixture(scope="module")
def tests(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The tests of one job with all faults. 38 sequences: the last batch of a rank is a partial one."""
    return planted(tmp_path_factory, FOUND, 2)


def planted(folders: pytest.TempPathFactory, faults: Collection[str], ranks: int, *settings: str) -> list[Any]:
    """The tests of one job, each with a fault, of a model by so many ranks."""
    if mpirun() is None:
        pytest.skip("NO mpirun: FAULTS NOT PLANTED")
    folder = folders.mktemp("faulty")
    rates = " ".join(f"0.00{number}" for number in range(1, 1 + len(faults)))
    (folder / "input.dat").write_text(INPUT.format(samples=38, degree=ranks, epochs=1, rates=rates))
    job = run_job([FAULTY, ",".join(faults), *(["--set", *settings] if settings else [])], ranks, folder, timeout=300)
    assert "End of Tests." in job.stdout, job.stdout + job.stderr
    made: list[dict[str, Any]] = json.loads(next(folder.glob("results/*/result.json")).read_text())["tests"]
    return made


@pytest.mark.exhaustive
@pytest.mark.parametrize("fault", FOUND)
def test_each_fault_is_found_by_its_check(fault: str, tests: list[dict[str, Any]]) -> None:
    test = tests[[*FOUND].index(fault)]
    verdicts = {check["name"]: check["verdict"] for check in test["checks"]}
    failed = {name for name, verdict in verdicts.items() if verdict == "FAILED"}
    perhaps = {*OF_CONTENT} - FOUND[fault] if FOUND[fault] else set()
    assert failed - perhaps == FOUND[fault]
    assert test["verdict"] == ("FAILED" if FOUND[fault] else "PASSED")
    assert verdicts[CLAIMS] == ("FAILED" if CLAIMS in failed else "NOT CHECKED" if failed else "PASSED")
    assert verdicts[CEILING] == "PASSED"


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("faults", "settings"),
    [
        (OF_SHARDS, ["tensor"]),
        (OF_CLIPPING, ["data", "CLIP=0.1"]),
        (OF_CLIPPED_SHARDS, ["tensor", "CLIP=0.1"]),
        (OF_STAGES, ["pipeline", "CLIP=0.1"]),
    ],
)
def test_faults_of_shards_of_stages_and_of_clipping_are_found(
    tmp_path_factory: pytest.TempPathFactory, faults: dict[str, set[str]], settings: list[str]
) -> None:
    """Further checks may fail as well."""
    first, *others = settings
    made = planted(tmp_path_factory, faults, 2, f"PARALLEL={first}", *others)
    for test, (fault, expected) in zip(made, faults.items(), strict=True):
        failed = {check["name"] for check in test["checks"] if check["verdict"] == "FAILED"}
        assert expected <= failed and bool(failed) == bool(expected), (fault, failed)


def leaking() -> AbstractContextManager[Any]:
    """Attention to the next place as well."""
    genuine = functional.scaled_dot_product_attention

    def attention(queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, is_causal: bool) -> torch.Tensor:
        seen = torch.ones(queries.shape[2], queries.shape[2], dtype=torch.bool).tril(1)
        return genuine(queries, keys, values, attn_mask=seen)

    return patch.object(functional, "scaled_dot_product_attention", attention)


def last_validation(fault: AbstractContextManager[Any]) -> tuple[CurvePoint, float]:
    """The last validation of a model of a few hundred steps, and the entropy of the source."""
    text = INPUT.format(samples=1600, degree=1, epochs=2, rates="0.01")
    (case,) = parse(text.encode(), [], 1, lambda spec: None, "input.dat").cases(1)
    assert isinstance(case, Case) and case.dataset == GENERATED
    data = catalog.open_text_for(case.data_settings)
    with fault:
        graph = networks.for_data(case, data.shape, data.number_of_classes)
        training = measure.model_training(case, alone(), CPU, data, graph)
        training.run(Phases(CPU), unending())
    assert data.ceiling is not None
    return training.state.progress.curve[-1], data.ceiling


@pytest.mark.exhaustive
@pytest.mark.parametrize(("fault", "below"), [(nullcontext, False), (leaking, True)])
def test_a_model_that_sees_the_next_byte_is_below_the_entropy(fault: Any, below: bool) -> None:
    found, entropy = last_validation(fault())
    assert found.bits is not None and found.predicted == 512 * 16
    assert found.differences is not None and found.difference_squares is not None
    errors = paired_errors(found.differences, found.difference_squares, 512)
    assert (errors > MOST_ABOVE) == below == (found.bits / found.predicted < entropy)
    assert below or errors == 0.0
