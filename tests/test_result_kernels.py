"""What follows from measured kernels: the products a network has, rates, ratios, sums, ceilings, and what is owed."""

from copy import deepcopy
from typing import Any

import pytest
from kernel_rows import ENVIRONMENT, case_of, raw_of

from hpcai import networks, opcount
from hpcai.inputfile import Case
from hpcai.kernels import conv2d, gemm
from hpcai.opcount.products import Product, asked, of_layers, of_network, squares
from hpcai.report.consistency.kernels import claims
from hpcai.report.schema import kernels as schema
from hpcai.report.schema.check import violations
from hpcai.result import kernels

Json = dict[str, Any]
CASE = case_of("resnet8", "64", "512")


@pytest.mark.parametrize(("name", "side", "classes"), [("resnet8", 32, 10), ("resnet50", 224, 1000)])
def test_products_of_a_network_are_those_that_training_runs(name: str, side: int, classes: int) -> None:
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


def test_shapes_in_words() -> None:
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


def test_shapes_that_are_named_twice_are_measured_once() -> None:
    case = case_of("16", "resnet8", "16", "resnet8", "auto", batch=2)
    found = asked({**case.settings, "RESOLUTION": 48})
    assert len(found) == len(set(found)) == 3 + len(of_network("resnet8", 2))
    assert "n2 c3 h48 w48 f16" in found[3].shape


def test_layers_have_the_types_of_precision_and_squares_two_more() -> None:
    named = case_of("resnet8", "5", types=("bf16", "fp32", "bf16")).settings
    types = [(p.of, p.dtype) for p in asked(named)]
    layers = len(of_network("resnet8", 4))
    assert types[:layers] == [("resnet8", "bf16")] * layers
    assert types[layers : 2 * layers] == [("resnet8", "fp32")] * layers
    assert types[2 * layers :] == [("square", dtype) for dtype in ("bf16", "fp32", "fp64", "int8")]
    assert len(asked(case_of("5", types=("fp32",)).settings)) == 3


def test_rates_shares_and_ratios() -> None:
    raw = raw_of(CASE)
    rows = kernels.rows(CASE, raw)
    peak = next(row for row in rows if row["kernel"] == "fma_peak")
    assert (peak["gflops"], peak["share"], peak["ratio"], peak["intensity"]) == (8.0, 1.0, None, None)
    square = [row for row in rows if row["shape"] == "m64 n64 k64" and row["dtype"] == "fp32"]
    assert [row["gflops"] for row in square] == pytest.approx([1.0, 1 / 1.5])
    assert [row["share"] for row in square] == pytest.approx([1 / 8, 1 / 12])
    assert [row["ratio"] for row in square] == [1.5, 1.5]
    assert square[0]["intensity"] == 2 * 64**3 / (3 * 4 * 64**2)
    assert {row["share"] for row in rows if row["dtype"] == "int8"} == {None}
    assert {row["test"] for row in rows} == {3}
    alone = {**raw, "rows": [row for row in raw["rows"] if row["provider"] == "vendor"]}
    assert {(row["ratio"], row["share"]) for row in kernels.rows(CASE, alone)} == {(None, None)}


@pytest.mark.parametrize(("dtype", "residual", "verdict"), [
    ("fp32", 1.0, "PASSED"),
    ("fp32", 1.001, "FAILED"),
    ("fp64", 9999999.0, "FAILED"),
    ("int8", 0.0, "PASSED"),
    ("int8", 1.0, "FAILED"),
])  # fmt: skip
def test_one_wrong_row_fails_the_table(dtype: str, residual: float, verdict: str) -> None:
    raw = raw_of(CASE)
    row = next(row for row in raw["rows"] if row["dtype"] == dtype and row["of"] == "square")
    row["residual"] = residual
    rows = kernels.rows(CASE, raw)
    assert rows[raw["rows"].index(row)]["verdict"] == kernels.verdict(rows) == verdict
    assert kernels.verdict([]) == "FAILED"


def test_ceilings_are_of_the_faster_provider_and_of_what_passed() -> None:
    raw = raw_of(CASE)
    expected = {"fma_peak": 8e9, "gemm": 1e9, "convolution": 1e9, "triad": 24_000 / 1e-5}
    assert kernels.ceilings(kernels.rows(CASE, raw)) == pytest.approx(expected)
    for row in raw["rows"]:
        if row["kernel"] == "conv2d" and row["provider"] == "custom":
            row["residual"] = 2.0
    assert kernels.ceilings(kernels.rows(CASE, raw))["convolution"] == pytest.approx(1e9 / 1.5)
    nothing = dict.fromkeys(expected)
    assert kernels.ceilings([]) == nothing


def test_sums_count_what_occurs_often_often() -> None:
    raw = raw_of(CASE)
    found = {each["kernel"]: each for each in kernels.sums(kernels.rows(CASE, raw))}
    assert set(found) == {"conv2d", "gemm"}
    operations = sum(p.occurrences * p.operations for p in asked(CASE.settings) if p.kernel == "conv2d")
    assert found["conv2d"]["seconds"]["custom"] == found["conv2d"]["fastest"] == pytest.approx(operations / 1e9)
    assert found["conv2d"]["seconds"]["vendor"] == pytest.approx(1.5 * operations / 1e9)
    assert (found["conv2d"]["products"], found["gemm"]["products"]) == (9 * 3 - 1, 3)
    raw["rows"].remove(next(r for r in raw["rows"] if r["kernel"] == "conv2d" and r["provider"] == "vendor"))
    lacking = next(each for each in kernels.sums(kernels.rows(CASE, raw)) if each["kernel"] == "conv2d")
    assert (lacking["seconds"]["vendor"], lacking["ratio"]) == (None, None)


def broken(raw: Json, case: Case = CASE) -> list[str]:
    return list(claims(case, raw, ENVIRONMENT))


def test_whole_measurements_break_no_claim_and_keep_the_schema() -> None:
    raw = raw_of(CASE)
    assert broken(raw) == []
    assert not list(violations(raw, schema.RAW))
    rows = kernels.rows(CASE, raw)
    assert not [fault for row in rows for fault in violations(row, schema.ROW)]
    assert not list(violations(kernels.ceilings(rows), schema.CEILINGS))
    automatic = case_of("resnet8", "auto", "1024", "100")
    assert broken(raw_of(automatic, 512, 2048), automatic) == []


@pytest.mark.parametrize("name", ["operations", "nbytes", "occurrences", "seconds", "threads", "residual"])
def test_no_number_of_a_row_may_be_altered_alone(name: str) -> None:
    for place in range(len(raw_of(CASE)["rows"])):
        raw = deepcopy(raw_of(CASE))
        raw["rows"][place][name] = -1
        assert broken(raw), (place, name)
        raw["rows"][place][name] = 10**6
        assert broken(raw) or name in ("seconds", "residual")


@pytest.mark.parametrize("name", ["shape", "direction", "kernel", "of", "dtype", "provider"])
def test_no_word_of_a_row_may_be_altered_alone(name: str) -> None:
    for place, other in ((0, 2), (5, -1), (-1, 5)):
        raw = raw_of(CASE)
        values = {row[name] for row in raw["rows"]} | {raw["rows"][other][name]}
        for value in values - {raw["rows"][place][name]}:
            raw["rows"][place][name] = value
            assert broken(raw), (place, value)


def test_rows_may_not_be_left_out_added_or_told_twice() -> None:
    for change in (lambda rows: rows.pop(), lambda rows: rows.append(rows[-1]), lambda rows: rows.pop(0)):
        raw = raw_of(CASE)
        change(raw["rows"])
        assert broken(raw)
    raw = raw_of(CASE)
    raw["missing"].append({"kernel": "gemm", "dtype": "int8", "provider": "vendor", "why": "none"})
    assert broken(raw)
    left = [r for r in raw["rows"] if (r["dtype"], r["provider"]) != ("int8", "vendor")]
    raw["rows"] = left
    assert broken(raw) == []
    raw["rows"] = [row for row in left if row["dtype"] != "int8"]
    raw["missing"].append({"kernel": "gemm", "dtype": "int8", "provider": "custom", "why": "none"})
    assert broken(raw), "at least one provider computes"


@pytest.mark.parametrize(
    "fields", [("conv2d", "fp32", "vendor"), ("gemm", "fp32", "vendor"), ("conv2d", "fp32", "custom")], ids=str
)
def test_no_word_excuses_a_row_that_its_provider_cannot_lack(fields: tuple[str, str, str]) -> None:
    """torch computes every product but some of bytes, and a provider that is there computes every shape."""
    raw = raw_of(CASE)
    raw["missing"].append({**dict(zip(("kernel", "dtype", "provider"), fields, strict=True)), "why": "none"})
    last = max(n for n, row in enumerate(raw["rows"]) if (row["kernel"], row["dtype"], row["provider"]) == fields)
    del raw["rows"][last]
    assert broken(raw)


def test_the_check_of_a_row_follows_from_its_size() -> None:
    raw = raw_of(CASE)
    raw["rows"][-1]["checked"] = "random vectors"
    assert broken(raw)


@pytest.mark.parametrize("shape", ["sums0 steps0", "length0"])
def test_empty_ceilings_are_none(shape: str) -> None:
    raw = raw_of(CASE)
    kernel = "triad" if shape.startswith("length") else "fma_peak"
    for row in (row for row in raw["rows"] if row["kernel"] == kernel):
        row.update(shape=shape, operations=0, nbytes=0)
    assert broken(raw)


def test_squares_of_auto_follow_one_another() -> None:
    automatic = case_of("auto")
    assert broken(raw_of(automatic, 512, 1024), automatic) == []
    for sizes in ((1024,), (512, 2048), (512, 1000)):
        assert broken(raw_of(automatic, *sizes), automatic)
    assert broken(raw_of(CASE, 1024))
    assert broken({**raw_of(CASE), "ranks": 3})
