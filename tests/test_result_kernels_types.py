"""Tables of kernels in several types, on CPUs and on GPUs: their peaks, shares, ceilings, and allowed omissions."""

import re

import pytest
from examples.kernels import subject_of
from examples.training import stored
from sample_kernel_rows import ON_GPUS, case_of, raw_of
from sample_records import MEMORY, ON_GPU, altered, with_fields

from hpcai.inputfile import Case
from hpcai.opcount.ceilings import PEAKS, ceilings
from hpcai.report.roofline import notes
from hpcai.results.alterations import changed
from hpcai.results.claim import Subject
from hpcai.results.claim import violated as violated_claims
from hpcai.results.measured import Before, Measured
from hpcai.results.roofline import under_roofline
from hpcai.workloads.kernels.checks import build, rows, verdict
from hpcai.workloads.kernels.claims import CLAIMS
from hpcai.workloads.kernels.lines import block
from hpcai.workloads.kernels.record import KernelsRaw
from hpcai.workloads.kernels.scores import PEAKS_ON_GPUS, table_ceilings

CASE = case_of("resnet8", "64", types=("fp32", "bf16"))


def broken(raw: KernelsRaw) -> list[str]:
    """The claims that a table with these measurements violates on a CPU."""
    return list(violated_claims(CLAIMS, subject_of(CASE, raw)))


def broken_on_gpus(raw: KernelsRaw) -> list[str]:
    """The claims that it violates on GPUs."""
    return list(violated_claims(CLAIMS, Subject(CASE, build(CASE, Measured(raw, ON_GPU), Before()), ON_GPUS)))


def without(raw: KernelsRaw, kernel: str, dtype: str, *providers: str) -> KernelsRaw:
    """The rows of these providers are missing, with a reason."""
    absent = [(kernel, dtype, provider) for provider in providers]
    left = [row for row in raw.rows if (row.kernel, row.dtype, row.provider) not in absent]
    fields = ("kernel", "dtype", "provider")
    lacking = [{**dict(zip(fields, each, strict=True)), "why": "no instructions"} for each in absent]
    return with_fields(raw, rows=left, missing=[*raw.missing, *lacking])


def on_cpu(raw: KernelsRaw) -> KernelsRaw:
    """The table on a CPU that has no provider of bf16."""
    return without(without(raw, "gemm", "bf16", "custom", "vendor"), "conv2d", "bf16", "custom", "vendor")


def printed(raw: KernelsRaw) -> str:
    return block(build(CASE, Measured(raw, MEMORY), Before()), rows(CASE, raw))


def place(raw: KernelsRaw, kernel: str) -> int:
    """The number of the first row of a kernel."""
    return next(n for n, row in enumerate(raw.rows) if row.kernel == kernel)


def test_a_gpu_has_more_ceilings() -> None:
    cpu, gpu = ([(each.kernel, each.dtype) for each in ceilings(where)] for where in (False, True))
    assert cpu == [("fma_peak", "fp32"), ("fma_peak", "fp64"), ("triad", "fp64")]
    assert {*cpu} < {*gpu} and {*gpu} - {*cpu} == {("copy", "fp64"), *(("fma_peak", t) for t in PEAKS[True][2:])}


def test_complete_tables_violate_no_claim() -> None:
    whole, cpu = raw_of(CASE, accelerated=True), on_cpu(raw_of(CASE))
    assert broken_on_gpus(whole) == broken(cpu) == []
    assert verdict(rows(CASE, whole)) == verdict(rows(CASE, cpu)) == "PASSED"


def test_ceilings_are_those_of_the_device_or_missing_with_a_reason() -> None:
    whole = raw_of(CASE, accelerated=True)
    assert broken(whole) and broken_on_gpus(on_cpu(raw_of(CASE)))
    for dtype in PEAKS[True]:
        found = without(whole, "fma_peak", dtype, "custom")
        assert broken_on_gpus(found) == []
        assert broken_on_gpus(with_fields(found, missing=whole.missing))
    assert broken_on_gpus(without(whole, "copy", "fp64", "custom")) == []
    assert broken_on_gpus(without(whole, "copy", "fp64", "vendor")), "torch always copies"
    copy = f"rows.{place(whole, 'copy')}"
    longer = altered(whole, changed(f"{copy}.shape", "length2000"), changed(f"{copy}.nbytes", 32_000))
    assert broken_on_gpus(longer), "vectors are those of the triad"
    for name, value in (("nbytes", 24_000), ("operations", 1000), ("shape", "length0")):
        assert broken_on_gpus(altered(whole, changed(f"{copy}.{name}", value))), name


def test_only_products_in_types_that_a_cpu_lacks_may_be_missing() -> None:
    assert broken_on_gpus(on_cpu(raw_of(CASE, accelerated=True)))
    assert broken(raw_of(CASE)), "bf16 on a CPU is fp32"
    for kernel in ("gemm", "conv2d"):
        assert broken(without(raw_of(CASE), kernel, "bf16", "custom", "vendor"))
    for dtype in ("int8", "fp64"):
        assert broken(without(on_cpu(raw_of(CASE)), "gemm", dtype, "custom", "vendor"))
    half = without(raw_of(CASE, accelerated=True), "conv2d", "bf16", "custom")
    assert broken_on_gpus(half) == []


def test_the_share_of_a_row_is_of_the_peak_of_its_type() -> None:
    raw = raw_of(CASE, accelerated=True)
    peaks = {row.dtype: n for n, row in enumerate(raw.rows) if row.kernel == "fma_peak"}
    factors = {dtype: 1 + PEAKS[True].index(dtype) for dtype in peaks}
    faster = altered(raw, *(changed(f"rows.{n}.seconds", 1e-4 / factors[dtype]) for dtype, n in peaks.items()))
    for row in rows(CASE, faster):
        if row.of == "square":
            assert row.share == pytest.approx(row.gflops / (8.0 * factors[row.dtype]))
    lacking = rows(CASE, without(faster, "fma_peak", "bf16", "custom"))
    assert {row.share for row in lacking if row.dtype == "bf16"} == {None}


def test_additional_ceilings_are_those_of_gpus() -> None:
    raw = raw_of(CASE, accelerated=True)
    found = table_ceilings(rows(CASE, raw))
    assert found.copy == pytest.approx(16_000 / 1e-5)
    assert [*PEAKS_ON_GPUS] == [f"fma_peak_{dtype}" for dtype in PEAKS[True][1:]]
    assert [getattr(found, name) for name in PEAKS_ON_GPUS] == pytest.approx([8e9] * 5)
    lacking = table_ceilings(rows(CASE, without(raw, "fma_peak", "tf32", "custom")))
    assert lacking.fma_peak_tf32 is None and lacking.fma_peak_fp16
    on_a_cpu = table_ceilings(rows(CASE, raw_of(CASE)))
    assert {getattr(on_a_cpu, name) for name in ("copy", *PEAKS_ON_GPUS)} == {None}


def test_a_table_of_a_gpu_distinguishes_its_types() -> None:
    text = printed(altered(raw_of(CASE, accelerated=True), changed("rows.0.variant", "fma")))
    assert re.search(r"FMA peak fp32, custom +: +8.00 GFLOP/s a rank, .* PASSED, fma\n", text)
    assert re.search(r"FMA peak int8, custom +: +8.00 Gop/s a rank, +16.00 all, bound +- a rank, +0 PASSED\n", text)
    assert re.search(r"copy fp64, vendor +: +1.60 GB/s a rank, +3.20 all, bound +- a rank, +0.0000 PASSED\n", text)
    assert re.search(r"\n  convolutions, 26 in a step +: custom", text)
    assert re.search(r"\n  convolutions in bf16, 26 in a step +: custom", text)
    plain, halved = re.findall(r"resnet8(?: in bf16)? under the roofline, batch 4: ridge at \S+ FLOP per byte", text)
    assert "in bf16" in halved and "in bf16" not in plain
    moved = re.findall(r"a step moves (\S+) GB", text)
    assert len(moved) == 2 and float(moved[1]) < float(moved[0])


def test_ceilings_that_were_not_measured_are_absent() -> None:
    text = printed(without(raw_of(CASE, accelerated=True), "fma_peak", "bf16", "custom"))
    rows = [line for line in text.splitlines() if re.search(r" bf16  (custom|vendor)", line)]
    assert rows and all(re.search(r" 1\.500        - ", line) for line in rows)
    assert "resnet8 in bf16 under the roofline, batch 4: FMA peak or triad not measured" in text
    assert "not measured: fma_peak bf16, custom: no instructions" in text
    cpu = printed(on_cpu(raw_of(CASE)))
    assert "not measured: conv2d bf16, vendor: no instructions" in cpu and "in bf16" not in cpu


def test_a_test_is_compared_with_ceilings_of_its_own_type_if_measured() -> None:
    trained, *_ = stored("ensemble")
    raw = raw_of(CASE, accelerated=True)
    halves = [n for n, row in enumerate(raw.rows) if row.dtype == "bf16"]
    faster = altered(raw, *(changed(f"rows.{n}.seconds", raw.rows[n].seconds / 4) for n in halves))
    for precision, before, dtype in (("bf16", faster, "bf16"), ("bf16", on_cpu(raw), "fp32"), ("fp32", faster, "fp32")):
        case = Case(4, "ensemble", {**trained.case.settings, "PRECISION": precision})
        found = under_roofline(case, trained.entry.raw, 1e9, Before(kernels=rows(CASE, before)))
        assert found.ceilings.gemm == pytest.approx(4e9 if dtype == "bf16" else 1e9)
        assert found.kernels and found.kernels.type == dtype
        assert any(f"type {dtype}" in line for line in notes(found, one_rank=True))
