"""What is printed of a test under the roofline."""

from typing import Any

import pytest
from small_run import cases_of, golden
from test_result_roofline import computing, network, reduced

from hpcai import result
from hpcai.report import block
from hpcai.report.roofline import lines, notes

Json = dict[str, Any]


def judged(index: int, *tables: Json) -> Json:
    stored = golden()
    return result.judge(cases_of(stored)[index], stored["tests"][index]["raw"], [], tables)


def told(test: Json, name: str) -> str:
    (line,) = [line for line in lines(test) if line.strip().startswith(name)]
    return line.split("=", 1)[1].strip()


def test_shares_are_told_as_they_are() -> None:
    test = judged(0, computing())
    shares = test["scores"]["roofline"]["shares"]
    assert told(test, "share of the FMA peak") == f"{shares['fma_peak']:.7f}"
    assert told(test, "share of the GEMM") == told(test, "share of what is attainable") == f"{shares['compute']:.7f}"
    assert float(told(test, "share of the computing")) > 1
    assert told(test, "GFLOP/s of a rank") == f"{test['gflops'] / 2:.7f}"


def test_a_rank_that_trains_alone_has_no_communication() -> None:
    test = judged(0, computing())
    for name in ("FLOP per byte all-reduced", "share of the communication", "bandwidth of gradients within"):
        assert told(test, name) == "n/a, one rank"
    first, second = notes(test)
    assert first.startswith("Roofline: a rank could reach 1.00 GFLOP/s, bound by convolution and GEMM; convolution and")
    assert "communication" not in first + second
    assert second.endswith("test 1: memory 2.40 GB/s, GEMM by custom, convolution by custom")


def test_a_group_is_told_its_all_reduce() -> None:
    test = judged(1, computing(), network(reduced(seconds=3.0)))
    first, _, third = notes(test)
    assert "bound by communication;" in first and "communication 0." in first
    assert third.endswith("bytes by gloo over the groups 0.000 GB/s")
    assert float(told(test, "bandwidth of gradients within")) > 0
    assert told(test, "bandwidth of gradients between") == "n/a, none"


def test_what_was_not_measured_is_said() -> None:
    test = judged(1, network())
    for name in ("share of the FMA peak", "share of the communication", "share of what is attainable"):
        assert told(test, name) == "n/a, not measured"
    first, second, third = notes(test)
    assert "nothing to hold it against; convolution and GEMM not measured, memory not measured" in first
    assert second.endswith("no table of kernels before this test")
    assert third.endswith("no all-reduce of such groups before this test")


def test_providers_that_share_a_ceiling_are_both_named() -> None:
    mixed = computing()
    for line in mixed["raw"]["rows"]:
        line["seconds"] *= 2 if (line["provider"], line["direction"]) == ("custom", "forward") else 1
    assert "GEMM by custom (2) and vendor (1)" in list(notes(judged(0, mixed)))[1]


@pytest.mark.parametrize("index", [0, 1])
def test_lines_of_a_block_are_not_too_wide(index: int) -> None:
    text = block.block(judged(index, computing(), network(reduced(nbytes=2**28))))
    found = [line for line in text.splitlines() if "Roofline" in line or "share of" in line]
    assert len(found) > 8 and max(map(len, found)) < 180


def test_without_tables_the_bandwidth_of_the_gradients_is_told_all_the_same() -> None:
    test = judged(1)
    assert told(test, "share of what is attainable") == "n/a, not measured"
    assert float(told(test, "bandwidth of gradients within")) > 0
