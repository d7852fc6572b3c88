"""Values derived from measured kernels: the products of a network, rates, ratios, sums, ceilings, and claims."""

from dataclasses import replace
from typing import Any

import pytest
from examples.kernels import subject_of
from msgspec import ValidationError, convert
from sample_kernel_rows import case_of, raw_of
from sample_records import altered, with_fields

from hpcai import networks, opcount
from hpcai.inputfile import Case
from hpcai.kernels import conv2d, gemm
from hpcai.kernels.layers import SPECS
from hpcai.opcount.products import Product, of_layers, of_network, requested, squares
from hpcai.results.alterations import appended, changed, removed, repeated
from hpcai.results.claim import violated as violated_claims
from hpcai.workloads.kernels.checks import rows, verdict
from hpcai.workloads.kernels.claims import CLAIMS
from hpcai.workloads.kernels.lines import NAMES
from hpcai.workloads.kernels.record import KernelCeilings, KernelsRaw, MissingKernel
from hpcai.workloads.kernels.scores import ceilings, step_times

CASE = case_of("resnet8", "64", "512")


@pytest.mark.parametrize(("name", "side", "classes"), [("resnet8", 32, 10), ("resnet50", 224, 1000)])
def test_products_of_a_network_are_those_of_its_training(name: str, side: int, classes: int) -> None:
    graph = networks.build(name, (side, side), 3, classes)
    found = of_network(name, 4)
    assert sum(p.occurrences * p.operations for p in found) == 4 * opcount.count(graph, "model").total
    runs = list(of_layers(graph, 4))
    assert [(p.direction, p.occurrences) for p in found] == [(d, runs.count((s, d))) for s, d in dict.fromkeys(runs)]
    for product, (shape, _) in zip(found, dict.fromkeys(runs), strict=True):
        spec: Any = conv2d.SPEC if product.kernel == "conv2d" else gemm.SPEC
        own: Any = product.layer
        assert own == shape
        assert (product.operations, product.nbytes) == (spec.operations(own), spec.nbytes(own))


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "tf32"])
def test_products_of_a_decoder_are_those_of_its_training_and_attention_in_its_types(dtype: str) -> None:
    found = of_network("decoder4x128", 3, 32, dtype)
    attention = [each for each in found if each.kernel == "attention"]
    counted = sum(each.occurrences * each.operations for each in found)
    lacking = 4 * 3 * 3 * 2 * 2 * (32 * 33 // 2) * 128 * (dtype == "tf32")
    assert counted + lacking == 3 * opcount.count(networks.build("decoder4x128", (1, 32), 1, 256), "model").total
    assert [(each.direction, each.shape, each.occurrences) for each in attention] == [
        (direction, "n3 h2 s32 d64", 4) for direction in ("forward", "input_gradient") if dtype != "tf32"
    ]


def test_every_kernel_of_layers_has_a_name_in_the_report() -> None:
    assert {*SPECS} == {*NAMES}


def test_shapes_as_text() -> None:
    stem = of_network("resnet50", 8)[0]
    assert (stem.shape, stem.direction) == ("n8 c3 h224 w224 f64 k7x7 s2x2 p3x3", "forward")
    grouped = Product(
        "conv2d", "forward", conv2d.Shape(1, 8, 9, 7, 8, (3, 1), (1, 1), (1, 0), (2, 1), 4), "", 1, "fp32"
    )
    assert grouped.shape == "n1 c8 h9 w7 f8 k3x1 s1x1 p1x0 d2x1 g4"
    assert grouped.operations == 2 * 2 * 3 * 8 * 7 * 7
    dense = [p.shape for p in of_network("resnet8", 32)[-3:]]
    assert dense == ["m32 n10 k64", "m32 n64 k10", "m10 n64 k32"]
    assert {p.shape for p in squares([5])} == {"m5 n5 k5"}
    nbytes = {p.dtype: p.nbytes for p in squares([5])}
    assert nbytes == {"fp32": 300, "fp64": 600, "int8": 150, "tf32": 300, "fp16": 150, "bf16": 150}


def test_shapes_that_are_given_twice_are_measured_once() -> None:
    case = case_of("16", "resnet8", "16", "resnet8", "auto", batch=2)
    found = requested(replace(case, settings={**case.settings, "RESOLUTION": 48}))
    assert len(found) == len(set(found)) == 3 + len(of_network("resnet8", 2))
    assert "n2 c3 h48 w48 f16" in found[3].shape


def test_layers_have_the_types_of_precision_and_squares_two_more() -> None:
    named = case_of("resnet8", "5", types=("bf16", "fp32", "bf16"))
    types = [(p.of, p.dtype) for p in requested(named)]
    layers = len(of_network("resnet8", 4))
    assert types[:layers] == [("resnet8", "bf16")] * layers
    assert types[layers : 2 * layers] == [("resnet8", "fp32")] * layers
    assert types[2 * layers :] == [("square", dtype) for dtype in ("bf16", "fp32", "fp64", "int8")]
    assert len(requested(case_of("5", types=("fp32",)))) == 3


def test_rates_shares_and_ratios_by_hand() -> None:
    raw = raw_of(CASE)
    found = rows(CASE, raw)
    peak = next(row for row in found if row.kernel == "fma_peak")
    assert (peak.gflops, peak.share, peak.ratio, peak.intensity) == (8.0, 1.0, None, None)
    square = [row for row in found if row.shape == "m64 n64 k64" and row.dtype == "fp32"]
    assert [row.gflops for row in square] == pytest.approx([1.0, 1 / 1.5])
    assert [row.share for row in square] == pytest.approx([1 / 8, 1 / 12])
    assert [row.ratio for row in square] == [1.5, 1.5]
    assert square[0].intensity == 2 * 64**3 / (3 * 4 * 64**2)
    assert {row.share for row in found if row.dtype == "int8"} == {None}
    assert {(row.test, row.threads) for row in found} == {(3, 1)}
    alone = with_fields(raw, rows=[row for row in raw.rows if row.provider == "vendor"])
    assert {(row.ratio, row.share) for row in rows(CASE, alone)} == {(None, None)}


@pytest.mark.parametrize(("dtype", "residual", "expected"), [
    ("fp32", 1.0, "PASSED"),
    ("fp32", 1.001, "FAILED"),
    ("fp64", 9999999.0, "FAILED"),
    ("int8", 0.0, "PASSED"),
    ("int8", 1.0, "FAILED"),
])  # fmt: skip
def test_one_wrong_row_fails_the_table(dtype: str, residual: float, expected: str) -> None:
    raw = raw_of(CASE)
    place = next(n for n, row in enumerate(raw.rows) if (row.dtype, row.of) == (dtype, "square"))
    found = rows(CASE, altered(raw, changed(f"rows.{place}.residual", residual)))
    assert found[place].verdict == verdict(found) == expected
    assert verdict([]) == "FAILED"


def test_ceilings_are_those_of_the_faster_provider_that_passed() -> None:
    raw = raw_of(CASE)
    found = ceilings(rows(CASE, raw))
    rates = (found.fma_peak, found.gemm, found.convolution, found.triad)
    assert rates == pytest.approx((8e9, 1e9, 1e9, 24_000 / 1e-5))
    custom = [n for n, row in enumerate(raw.rows) if (row.kernel, row.provider) == ("conv2d", "custom")]
    wrong = altered(raw, *(changed(f"rows.{n}.residual", 2.0) for n in custom))
    assert ceilings(rows(CASE, wrong)).convolution == pytest.approx(1e9 / 1.5)
    assert ceilings([]) == KernelCeilings(fma_peak=None, gemm=None, convolution=None, triad=None)


def test_products_of_a_step_count_as_often_as_they_occur() -> None:
    raw = raw_of(CASE)
    found = {time.products.kernel: time for time in step_times(rows(CASE, raw))}
    assert set(found) == {"conv2d", "gemm"}
    operations = sum(p.occurrences * p.operations for p in requested(CASE) if p.kernel == "conv2d")
    convolutions = found["conv2d"]
    assert convolutions.seconds["custom"] == convolutions.fastest == pytest.approx(operations / 1e9)
    assert convolutions.seconds["vendor"] == pytest.approx(1.5 * operations / 1e9)
    assert (convolutions.count, found["gemm"].count) == (9 * 3 - 1, 3)
    first = next(n for n, row in enumerate(raw.rows) if (row.kernel, row.provider) == ("conv2d", "vendor"))
    absent, *_ = step_times(rows(CASE, altered(raw, removed(f"rows.{first}"))))
    assert (absent.products.kernel, absent.seconds["vendor"], absent.ratio) == ("conv2d", None, None)


def broken(raw: KernelsRaw, case: Case = CASE) -> list[str]:
    """The claims that a table with these measurements violates."""
    return list(violated_claims(CLAIMS, subject_of(case, raw)))


def refused(raw: KernelsRaw, place: int, name: str, value: object) -> bool:
    """Whether another value in a row is refused, by its type or by a claim."""
    try:
        return bool(broken(altered(raw, changed(f"rows.{place}.{name}", value))))
    except ValidationError:
        return True


def test_complete_measurements_violate_no_claim() -> None:
    assert broken(raw_of(CASE)) == []
    automatic = case_of("resnet8", "auto", "1024", "100")
    assert broken(raw_of(automatic, 512, 2048), automatic) == []


@pytest.mark.parametrize("name", ["operations", "nbytes", "occurrences", "seconds", "threads", "residual"])
def test_no_number_of_a_row_may_be_altered_alone(name: str) -> None:
    raw = raw_of(CASE)
    for place in range(len(raw.rows)):
        assert refused(raw, place, name, -1), (place, name)
        assert refused(raw, place, name, 10**6) or name in ("seconds", "residual")
    assert name != "seconds" or refused(raw, 0, name, 0)


@pytest.mark.parametrize("name", ["shape", "direction", "kernel", "of", "dtype", "provider"])
def test_no_word_of_a_row_may_be_altered_alone(name: str) -> None:
    raw = raw_of(CASE)
    values = {getattr(row, name) for row in raw.rows}
    for place in (0, 5, -1):
        for value in values - {getattr(raw.rows[place], name)}:
            assert refused(raw, place, name, value), (place, value)
        assert refused(raw, place, name, "other") and refused(raw, place, name, "")


def test_missing_added_or_repeated_rows_violate_a_claim() -> None:
    raw = raw_of(CASE)
    for change in (removed("rows.-1"), repeated("rows.-1"), removed("rows.0")):
        assert broken(altered(raw, change))
    missing = MissingKernel(kernel="gemm", dtype="int8", provider="vendor", why="none")
    absent = with_fields(raw, missing=[*raw.missing, missing])
    assert broken(absent)
    left = [row for row in raw.rows if (row.dtype, row.provider) != ("int8", "vendor")]
    assert broken(with_fields(absent, rows=left)) == []
    custom = with_fields(missing, provider="custom")
    neither = with_fields(absent, rows=[row for row in left if row.dtype != "int8"], missing=[*absent.missing, custom])
    assert broken(neither), "at least one provider computes"


@pytest.mark.parametrize(
    "fields", [("conv2d", "fp32", "vendor"), ("gemm", "fp32", "vendor"), ("conv2d", "fp32", "custom")], ids=str
)
def test_no_reason_allows_a_missing_row_that_its_provider_can_compute(fields: tuple[str, str, str]) -> None:
    """torch computes every product except some int8 ones, and an available provider computes every shape."""
    raw = raw_of(CASE)
    missing = {**dict(zip(("kernel", "dtype", "provider"), fields, strict=True)), "why": "none"}
    last = max(n for n, row in enumerate(raw.rows) if (row.kernel, row.dtype, row.provider) == fields)
    assert convert(missing, MissingKernel)
    assert broken(altered(raw, appended("missing", missing), removed(f"rows.{last}")))


def test_the_verification_of_a_row_follows_from_its_size() -> None:
    assert broken(altered(raw_of(CASE), changed("rows.-1.checked", "random vectors")))


@pytest.mark.parametrize("shape", ["sums0 steps0", "length0"])
def test_empty_kernels_give_no_ceilings(shape: str) -> None:
    raw = raw_of(CASE)
    kernel = "triad" if shape.startswith("length") else "fma_peak"
    empty = {"shape": shape, "operations": 0, "nbytes": 0}
    found = [with_fields(row, **empty) if row.kernel == kernel else row for row in raw.rows]
    assert broken(with_fields(raw, rows=found))


def test_squares_of_auto_are_consecutive() -> None:
    automatic = case_of("auto")
    assert broken(raw_of(automatic, 512, 1024), automatic) == []
    for sizes in ((1024,), (512, 2048), (512, 1000)):
        assert broken(raw_of(automatic, *sizes), automatic)
    assert broken(raw_of(CASE, 1024))
    assert broken(with_fields(raw_of(CASE), ranks=3))
