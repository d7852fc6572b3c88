"""The printed lines of a test under the roofline."""

import pytest
from examples.training import stored
from msgspec.structs import replace
from test_result_roofline import Tables, after, computing, measured, network, reduced

from hpcai.record.training import TrainingRow
from hpcai.report.lines import labelled
from hpcai.report.roofline import notes
from hpcai.report.training import training_block
from hpcai.results.measured import Measured
from hpcai.workloads.ensemble import checks


def entry(index: int, *tables: Tables) -> TrainingRow:
    subject = stored("ensemble")[index]
    return checks.build(subject.case, Measured(subject.entry.raw, subject.entry.memory), after(*tables))


def shown(test: TrainingRow, name: str) -> str:
    records = (test.scores.roofline, test.scores.gradient_bandwidth)
    (line,) = [line for record in records for line in labelled(record) if line.strip().startswith(name)]
    return line.split("=", 1)[1].strip()


def notes_of(test: TrainingRow) -> list[str]:
    return [*notes(test.scores.roofline, test.q == 1)]


def test_shares_are_printed() -> None:
    test = entry(0, computing())
    shares = test.scores.roofline.shares
    assert shown(test, "share of the FMA peak") == f"{shares.fma_peak:.7f}"
    assert shown(test, "share of the GEMM") == shown(test, "share of the attainable rate") == f"{shares.compute:.7f}"
    assert float(shown(test, "share of the compute bound")) > 1
    assert shown(test, "GFLOP/s of a rank") == f"{test.gflops / 2:.7f}"


def test_a_rank_that_trains_alone_has_no_communication() -> None:
    test = entry(0, computing())
    assert shown(test, "FLOP per byte all-reduced") == "n/a, one rank"
    assert shown(test, "share of the communication") == "n/a, not measured"
    assert shown(test, "gradient bandwidth within") == "n/a, no such group"
    first, second = notes_of(test)
    assert first.startswith("Roofline: attainable 1.00 GFLOP/s a rank, bound by convolution and GEMM; convolution and")
    assert "communication" not in first + second
    assert second.endswith("test 1: memory 2.40 GB/s, GEMM by custom, convolution by custom, type fp32")


def test_the_all_reduce_of_a_group_is_printed() -> None:
    test = entry(1, computing(), network(reduced(seconds=3.0)))
    first, _, third = notes_of(test)
    assert "bound by communication;" in first and "communication 0." in first
    assert third.endswith("bytes by gloo over the groups 0.000 GB/s")
    assert float(shown(test, "gradient bandwidth within")) > 0
    assert shown(test, "gradient bandwidth between") == "n/a, no such group"


def test_missing_measurements_are_reported() -> None:
    test = entry(1, network())
    for name in ("share of the FMA peak", "share of the communication", "share of the attainable rate"):
        assert shown(test, name) == "n/a, not measured"
    first, second, third = notes_of(test)
    assert "no ceiling was measured before this test; convolution and GEMM not measured, memory not measured" in first
    assert second.endswith("no table of kernels before this test")
    assert third.endswith("no all-reduce of such groups before this test")


def test_providers_that_share_a_ceiling_are_both_named() -> None:
    mixed = [
        replace(row, seconds=row.seconds * (2 if (row.provider, row.direction) == ("custom", "forward") else 1))
        for row in measured()
    ]
    assert "GEMM by custom (2) and vendor (1)" in notes_of(entry(0, computing(rows=tuple(mixed))))[1]


@pytest.mark.parametrize("index", [0, 1])
def test_lines_of_a_block_are_not_too_wide(index: int) -> None:
    text = training_block(entry(index, computing(), network(reduced(nbytes=2**28))), "")
    found = [line for line in text.splitlines() if "Roofline" in line or "share of" in line]
    assert len(found) > 8 and max(map(len, found)) < 180


def test_the_bandwidth_of_the_gradients_is_printed_also_without_tables() -> None:
    test = entry(1)
    assert shown(test, "share of the attainable rate") == "n/a, not measured"
    assert float(shown(test, "gradient bandwidth within")) > 0
