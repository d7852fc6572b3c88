"""A third provider, added by one file a kernel: measured, verified and printed as the others, and FAILED if wrong."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hpcai.report.consistency.kernels import claims
from hpcai.report.kernels import block
from hpcai.report.schema import kernels as schema
from hpcai.report.schema.check import violations
from hpcai.result import kernels as results
from hpcai.result.roofline import faster
from kernel_rows import ENVIRONMENT, raw_of
from test_workload_kernels import SMALL, an_element, few_calls, measured, spoiled

from hpcai.kernels import conv2d, gemm
from hpcai.kernels.providers import CUSTOM, VENDOR, backend, providers

FOLDER = Path(__file__).parent / "added_providers"
PLAIN = "plain"
Json = dict[str, Any]


@pytest.fixture(autouse=True)
def added(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As if the files lay in the kernels' folders."""
    for kernel in (gemm, conv2d):
        monkeypatch.setattr(kernel, "__path__", [*kernel.__path__, str(FOLDER / kernel.SPEC.name)])
    yield
    for kernel in (gemm, conv2d):
        sys.modules.pop(f"{kernel.__name__}.{PLAIN}", None)


def verdicts(rows: list[Json]) -> set[tuple[str, str, str]]:
    """Kernel, provider and verdict of the products."""
    return {(row["kernel"], row["provider"], row["verdict"]) for row in rows if row["of"] != results.CEILING}


def test_it_is_found_by_its_file() -> None:
    assert providers(gemm.SPEC) == providers(conv2d.SPEC) == (CUSTOM, VENDOR, PLAIN)
    assert backend(gemm.SPEC, PLAIN, "cpu").prepare.__module__ == "hpcai.kernels.gemm.plain"


@pytest.mark.parallel(2)
def test_it_is_measured_and_verified_and_has_rows_as_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    few_calls(monkeypatch)
    raw = measured(SMALL)
    assert raw["missing"] == [
        {"kernel": "gemm", "dtype": "int8", "provider": PLAIN, "why": "int8 products by NumPy"},
    ]
    rows = results.rows(SMALL, raw)
    kernels = ("gemm", "conv2d")
    assert verdicts(rows) == {(kernel, who, "PASSED") for kernel in kernels for who in (CUSTOM, VENDOR, PLAIN)}
    assert all(row["ratio"] > 0 for row in rows if row["provider"] == PLAIN)
    assert not [fault for row in rows for fault in violations(row, schema.ROW)]
    printed = block({"index": 3, "settings": dict(SMALL.settings), "raw": raw}, rows)
    assert f" {PLAIN} " in printed and "not measured: gemm int8, plain: int8 products by NumPy" in printed
    assert all(list(found["seconds"]) == [CUSTOM, VENDOR, PLAIN] for found in results.sums(rows))
    assert list(faster(rows, "convolution")) == [CUSTOM, VENDOR, PLAIN]


@pytest.mark.parallel(2)
def test_a_wrong_one_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    few_calls(monkeypatch)
    for kernel in (gemm, conv2d):
        module: Any = backend(kernel.SPEC, PLAIN, "cpu")
        monkeypatch.setattr(module, "prepare", spoiled(an_element, module.prepare))
    rows = results.rows(SMALL, measured(SMALL))
    kernels = ("gemm", "conv2d")
    failed = {(kernel, PLAIN, "FAILED") for kernel in kernels}
    assert verdicts(rows) == failed | {(kernel, who, "PASSED") for kernel in kernels for who in (CUSTOM, VENDOR)}
    assert results.verdict(rows) == "FAILED"


def test_its_rows_are_held_against_the_input() -> None:
    raw = raw_of(SMALL)
    vendors = [row for row in raw["rows"] if (row["kernel"], row["provider"]) == ("gemm", VENDOR)]
    theirs = [{**row, "provider": PLAIN} for row in vendors]
    whole = {**raw, "rows": raw["rows"] + theirs}
    assert list(claims(SMALL, whole, ENVIRONMENT)) == list(claims(SMALL, raw, ENVIRONMENT)) == []
    assert list(claims(SMALL, {**raw, "rows": raw["rows"] + theirs[1:]}, ENVIRONMENT))
    assert list(claims(SMALL, {**raw, "rows": raw["rows"] + theirs + theirs[:1]}, ENVIRONMENT))
