"""A third provider, added by one file per kernel: measured, verified and printed like others, and FAILED if wrong."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from sample_kernel_rows import ENVIRONMENT, raw_of
from sample_records import MEMORY
from test_workload_kernels import SMALL, an_element, few_calls, measured, spoiled

from hpcai.kernels import conv2d, gemm
from hpcai.kernels.providers import CUSTOM, VENDOR, backend, providers
from hpcai.opcount.ceilings import CEILING
from hpcai.results.claim import Subject, violated
from hpcai.results.measured import Before, Measured
from hpcai.results.roofline import faster
from hpcai.workloads.kernels.checks import build, rows, verdict
from hpcai.workloads.kernels.claims import CLAIMS
from hpcai.workloads.kernels.lines import block
from hpcai.workloads.kernels.record import KernelRow, KernelsRaw, MissingKernel
from hpcai.workloads.kernels.scores import step_times

FOLDER = Path(__file__).parent / "added_providers"
PLAIN = "plain"
KERNELS = ("gemm", "conv2d")


@pytest.fixture(autouse=True)
def added(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As if the files were in the kernels' folders."""
    for kernel in (gemm, conv2d):
        monkeypatch.setattr(kernel, "__path__", [*kernel.__path__, str(FOLDER / kernel.SPEC.name)])
    yield
    for kernel in (gemm, conv2d):
        sys.modules.pop(f"{kernel.__name__}.{PLAIN}", None)


def verdicts(found: Sequence[KernelRow]) -> set[tuple[str, str, str]]:
    """Kernel, provider and verdict of the products."""
    return {(row.kernel, row.provider, row.verdict) for row in found if row.of != CEILING}


def test_the_provider_is_found_by_its_file() -> None:
    assert providers(gemm.SPEC) == providers(conv2d.SPEC) == (CUSTOM, VENDOR, PLAIN)
    assert backend(gemm.SPEC, PLAIN, "cpu").prepare.__module__ == "hpcai.kernels.gemm.plain"


@pytest.mark.exhaustive
@pytest.mark.parallel(2)
def test_the_provider_is_measured_verified_and_has_rows_like_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    few_calls(monkeypatch)
    raw = measured(SMALL)
    reason = "int8 products by NumPy"
    assert raw.missing == (MissingKernel(kernel="gemm", dtype="int8", provider=PLAIN, why=reason),)
    found = rows(SMALL, raw)
    assert verdicts(found) == {(kernel, who, "PASSED") for kernel in KERNELS for who in (CUSTOM, VENDOR, PLAIN)}
    assert all(row.ratio is not None and row.ratio > 0 for row in found if row.provider == PLAIN)
    printed = block(build(SMALL, Measured(raw, MEMORY), Before()), found)
    assert f" {PLAIN} " in printed and f"not measured: gemm int8, {PLAIN}: {reason}" in printed
    assert all(list(time.seconds) == [CUSTOM, VENDOR, PLAIN] for time in step_times(found))
    assert list(faster(found, "convolution")) == [CUSTOM, VENDOR, PLAIN]


@pytest.mark.exhaustive
@pytest.mark.parallel(2)
def test_a_wrong_provider_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    few_calls(monkeypatch)
    for kernel in (gemm, conv2d):
        module: Any = backend(kernel.SPEC, PLAIN, "cpu")
        monkeypatch.setattr(module, "prepare", spoiled(an_element, module.prepare))
    found = rows(SMALL, measured(SMALL))
    failed = {(kernel, PLAIN, "FAILED") for kernel in KERNELS}
    assert verdicts(found) == failed | {(kernel, who, "PASSED") for kernel in KERNELS for who in (CUSTOM, VENDOR)}
    assert verdict(found) == "FAILED"


def violated_claims(raw: KernelsRaw) -> list[str]:
    return list(violated(CLAIMS, Subject(SMALL, build(SMALL, Measured(raw, MEMORY), Before()), ENVIRONMENT)))


def test_rows_of_the_provider_have_to_match_the_input() -> None:
    raw = raw_of(SMALL)
    vendors = [row for row in raw.rows if (row.kernel, row.provider) == ("gemm", VENDOR)]
    plain_rows = [replace(row, provider=PLAIN) for row in vendors]
    assert violated_claims(raw) == violated_claims(replace(raw, rows=(*raw.rows, *plain_rows))) == []
    assert violated_claims(replace(raw, rows=(*raw.rows, *plain_rows[1:])))
    assert violated_claims(replace(raw, rows=(*raw.rows, *plain_rows, plain_rows[0])))
