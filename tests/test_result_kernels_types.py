"""Tables of kernels in several types, on CPUs and on GPUs: their peaks, shares, ceilings, and what may be missing."""

import re
from copy import deepcopy
from typing import Any

import pytest
from kernel_rows import ENVIRONMENT, case_of, raw_of
from small_run import cases_of, golden

from hpcai import result as results
from hpcai.opcount.ceilings import PEAKS, ceilings
from hpcai.report.consistency.kernels import claims
from hpcai.report.kernels import block
from hpcai.report.roofline import lines
from hpcai.report.schema import kernels as schema
from hpcai.report.schema.check import violations
from hpcai.report.schema.roofline import ROOFLINE
from hpcai.result import kernels

Json = dict[str, Any]
CASE = case_of("resnet8", "64", types=("fp32", "bf16"))
ON_GPU = {**ENVIRONMENT, "accelerators": 2}


def broken(raw: Json, environment: Json) -> list[str]:
    return list(claims(CASE, raw, environment))


def without(raw: Json, kernel: str, dtype: str, *providers: str) -> Json:
    """The rows of these providers are missing, for a reason."""
    fields = ("kernel", "dtype", "provider")
    absent = [(kernel, dtype, provider) for provider in providers]
    rows = [row for row in raw["rows"] if tuple(row[field] for field in fields) not in absent]
    told = [{**dict(zip(fields, each, strict=True)), "why": "no instructions"} for each in absent]
    return {**raw, "rows": rows, "missing": [*raw["missing"], *told]}


def on_cpu(raw: Json) -> Json:
    """As it is where nobody multiplies bf16."""
    return without(without(raw, "gemm", "bf16", "custom", "vendor"), "conv2d", "bf16", "custom", "vendor")


def printed(raw: Json) -> str:
    return block({"index": 3, "settings": dict(CASE.settings), "raw": raw}, kernels.rows(CASE, raw))


def test_a_gpu_has_more_ceilings() -> None:
    cpu, gpu = ([(each.kernel, each.dtype) for each in ceilings(where)] for where in (False, True))
    assert cpu == [("fma_peak", "fp32"), ("fma_peak", "fp64"), ("triad", "fp64")]
    assert {*cpu} < {*gpu} and {*gpu} - {*cpu} == {("copy", "fp64"), *(("fma_peak", t) for t in PEAKS[True][2:])}


def test_whole_tables_break_no_claim_and_keep_the_schema() -> None:
    for raw, environment in ((raw_of(CASE, accelerated=True), ON_GPU), (on_cpu(raw_of(CASE)), ENVIRONMENT)):
        assert broken(raw, environment) == []
        rows = kernels.rows(CASE, raw)
        assert not list(violations(raw, schema.RAW)) and kernels.verdict(rows) == "PASSED"
        assert not [fault for row in rows for fault in violations(row, schema.ROW)]
        assert not list(violations(kernels.told_ceilings(rows), schema.CEILINGS))


def test_ceilings_are_those_of_the_device_or_missing_with_a_reason() -> None:
    whole = raw_of(CASE, accelerated=True)
    assert broken(whole, ENVIRONMENT) and broken(on_cpu(raw_of(CASE)), ON_GPU)
    for dtype in PEAKS[True]:
        told = without(whole, "fma_peak", dtype, "custom")
        assert broken(told, ON_GPU) == []
        assert broken({**told, "missing": whole["missing"]}, ON_GPU)
    assert broken(without(whole, "copy", "fp64", "custom"), ON_GPU) == []
    assert broken(without(whole, "copy", "fp64", "vendor"), ON_GPU), "torch always copies"
    longer = deepcopy(whole)
    next(row for row in longer["rows"] if row["kernel"] == "copy").update(shape="length2000", nbytes=32_000)
    assert broken(longer, ON_GPU), "vectors are those of the triad"
    for name, value in (("nbytes", 24_000), ("operations", 1000), ("shape", "length0")):
        counted = deepcopy(whole)
        next(row for row in counted["rows"] if row["kernel"] == "copy")[name] = value
        assert broken(counted, ON_GPU), name


def test_products_that_nobody_computes_are_of_types_that_a_cpu_lacks() -> None:
    assert broken(on_cpu(raw_of(CASE, accelerated=True)), ON_GPU)
    assert broken(raw_of(CASE), ENVIRONMENT), "what a CPU calls bf16 is fp32"
    for kernel in ("gemm", "conv2d"):
        assert broken(without(raw_of(CASE), kernel, "bf16", "custom", "vendor"), ENVIRONMENT)
    for dtype in ("int8", "fp64"):
        assert broken(without(on_cpu(raw_of(CASE)), "gemm", dtype, "custom", "vendor"), ENVIRONMENT)
    half = without(raw_of(CASE, accelerated=True), "conv2d", "bf16", "custom")
    assert broken(half, ON_GPU) == []


def test_the_share_of_a_row_is_of_the_peak_of_its_type() -> None:
    raw = raw_of(CASE, accelerated=True)
    for row in raw["rows"]:
        if row["kernel"] == "fma_peak":
            row["seconds"] = 1e-4 / (1 + PEAKS[True].index(row["dtype"]))
    for row in kernels.rows(CASE, raw):
        if row["of"] == "square":
            peak = 8.0 * (1 + PEAKS[True].index(row["dtype"]))
            assert row["share"] == pytest.approx(row["gflops"] / peak)
    lacking = kernels.rows(CASE, without(raw, "fma_peak", "bf16", "custom"))
    assert {row["share"] for row in lacking if row["dtype"] == "bf16"} == {None}


def test_further_ceilings_are_told_where_they_are_measured() -> None:
    raw = raw_of(CASE, accelerated=True)
    found = kernels.told_ceilings(kernels.rows(CASE, raw))
    assert found["copy"] == pytest.approx(16_000 / 1e-5)
    assert {name for name in found if name.startswith("fma_peak_")} == {f"fma_peak_{t}" for t in PEAKS[True][1:]}
    assert found["fma_peak_int8"] == pytest.approx(8e9)
    lacking = kernels.told_ceilings(kernels.rows(CASE, without(raw, "fma_peak", "tf32", "custom")))
    assert lacking["fma_peak_tf32"] is None
    assert {*kernels.told_ceilings(kernels.rows(CASE, raw_of(CASE)))} == {"fma_peak", "gemm", "convolution", "triad"}


def test_a_table_of_a_gpu_tells_its_types_apart() -> None:
    raw = raw_of(CASE, accelerated=True)
    raw["rows"][0]["variant"] = "fma"
    text = printed(raw)
    assert re.search(r"FMA peak fp32, custom +: +8.00 GFLOP/s a rank, .* PASSED, fma\n", text)
    assert re.search(r"FMA peak int8, custom +: +8.00 Gop/s a rank, +16.00 all, +0 PASSED\n", text)
    assert re.search(r"copy fp64, vendor +: +1.60 GB/s a rank, +3.20 all, +0.0000 PASSED\n", text)
    assert re.search(r"\n  convolutions, 26 in a step +: custom", text)
    assert re.search(r"\n  convolutions in bf16, 26 in a step +: custom", text)
    plain, halved = re.findall(r"resnet8(?: in bf16)? under the roofline, batch 4: ridge at \S+ FLOP per byte", text)
    assert "in bf16" in halved and "in bf16" not in plain
    moved = re.findall(r"a step moves (\S+) GB", text)
    assert len(moved) == 2 and float(moved[1]) < float(moved[0])


def test_what_nobody_measured_is_not_guessed() -> None:
    text = printed(without(raw_of(CASE, accelerated=True), "fma_peak", "bf16", "custom"))
    rows = [line for line in text.splitlines() if re.search(r" bf16  (custom|vendor)", line)]
    assert rows and all(re.search(r" 1\.500        - ", line) for line in rows)
    assert "resnet8 in bf16 under the roofline, batch 4: FMA peak or triad not measured" in text
    assert "not measured: fma_peak bf16, custom: no instructions" in text
    cpu = printed(on_cpu(raw_of(CASE)))
    assert "not measured: conv2d bf16, vendor: no instructions" in cpu and "in bf16" not in cpu


def test_a_test_is_held_against_ceilings_of_its_own_type_where_there_are_any() -> None:
    stored = golden()
    case, raw = cases_of(stored)[0], stored["tests"][0]["raw"]
    halves = {**case.settings, "PRECISION": "bf16"}
    table = {"index": 1, "workload": "kernels", "settings": {}, "raw": raw_of(CASE, accelerated=True)}
    for row in table["raw"]["rows"]:  # type: ignore[index]
        row["seconds"] /= 4 if row["dtype"] == "bf16" else 1
    without_it = {**table, "raw": on_cpu(raw_of(CASE))}
    probed = {**raw, "probe": {"fp32_seconds": 2.0, "seconds": 1.0, "converted": False}}
    trials = [(halves, table, "bf16"), (halves, without_it, "fp32"), (case.settings, table, "fp32")]
    for settings, before, dtype in trials:
        test = results.judge(type(case)(1, case.workload, settings), probed, [], [before])
        found = test["scores"]["roofline"]
        assert found["ceilings"]["gemm"] == pytest.approx(4e9 if dtype == "bf16" else 1e9)
        assert found["sources"]["kernels"].get("type", "fp32") == dtype
        assert not list(violations(found, ROOFLINE))
        assert [line for line in lines(test) if f"share of the GEMM ceiling, {dtype}=" in line]
