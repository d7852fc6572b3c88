"""Verdicts on nodes: limits, partners, and the printed table; pure functions."""

import pytest
from examples.health import CLUSTER, ONLY_GPUS, rates, raw_of, subject_of, three_nodes
from sample_records import environment

from hpcai.formulas.node_health import ATTEMPTS, FEWEST, LISTED, PARTNERS, limit, middle, partner, quartiles, rounds
from hpcai.results.claim import Subject
from hpcai.workloads.health.checks import ALL_REDUCE, LINKS, TRIAD, gemm
from hpcai.workloads.health.lines import block
from hpcai.workloads.health.record import HealthTable, NodeRates, SkippedRate


def table_of(found: NodeRates, nodes: int) -> HealthTable:
    machine = environment(ranks=2 * nodes, nodes=nodes)
    subject: Subject = subject_of(raw_of((found,), (ONLY_GPUS,), machine), machine)
    table: HealthTable = subject.entry
    return table


@pytest.mark.parametrize("nodes", range(2, 40))
def test_each_round_has_pairs_and_no_pair_meets_twice(nodes: int) -> None:
    met: set[tuple[int, int]] = set()
    for number in range(rounds(nodes)):
        partners = [partner(node, number, nodes) for node in range(nodes)]
        assert partners.count(None) == nodes % 2
        pairs = {(node, other) for node, other in enumerate(partners) if other is not None}
        assert all(other != node and (other, node) in pairs for node, other in pairs)
        assert not met & pairs
        met |= pairs
    least = min(PARTNERS, nodes - 1) - nodes % 2
    assert all(sum(one == node for one, _ in met) >= max(1, least) for node in range(nodes))


def test_one_node_has_no_partner() -> None:
    assert rounds(1) == 0


def test_the_limit_widens_with_the_spread_of_five_nodes_or_more() -> None:
    assert limit(100.0, 1.0, FEWEST, 0.25) == pytest.approx(75.0)
    assert limit(100.0, 4.0, FEWEST, 0.25) == pytest.approx(100 - 5 * 1.4826 * 4)
    assert limit(100.0, 4.0, FEWEST - 1, 0.25) == pytest.approx(75.0)
    assert limit(100.0, 90.0, FEWEST, 0.25) == pytest.approx(50.0)
    assert limit(0.0, 0.0, FEWEST, 0.25) == 0.0


def test_places_of_order_statistics() -> None:
    assert (middle(1), middle(4), middle(5)) == ((0, 0), (1, 2), (2, 2))
    assert (quartiles(1), quartiles(5), quartiles(8)) == ((0, 0), (1, 3), (1, 6))


def test_sound_nodes_pass_and_the_slowest_is_printed() -> None:
    table = subject_of(three_nodes(), CLUSTER).entry
    printed = block(table)
    assert table.verdict == "PASSED" and "FAILED" not in printed
    assert "Node health, test 4: 3 nodes, 6 ranks at once, 1 thread each ...... PASSED" in printed
    slowest = "  slowest: triad fp64 of node0, rank 0: 9.000 GB/s, 0.900 of the median, 1 measurement ...... PASSED"
    assert slowest in printed
    assert "  not measured: gemm bf16: bf16 is measured on GPUs; this is a CPU" in printed


@pytest.mark.parametrize("name", [gemm("fp32"), TRIAD, ALL_REDUCE, LINKS])
def test_a_slow_node_is_named_and_fails(name: str) -> None:
    table = table_of(rates(name, (6e9, 10e9, 10e9), slow=1, attempts=ATTEMPTS), 3)
    assert table.verdict == "FAILED"
    assert f"  slow: {name} of node0, rank 0: 6.000 G" in block(table)
    assert "0.600 of the median, 3 measurements ...... FAILED" in block(table)


def test_wrong_numbers_fail_even_if_all_nodes_have_them() -> None:
    table = table_of(rates(TRIAD, (0.0, 0.0, 0.0)), 3)
    assert table.verdict == "FAILED"
    assert block(table).count("no median, wrong numbers") == 3


def test_a_report_of_many_slow_nodes_is_bounded() -> None:
    many = rates(TRIAD, (1e9,) * 40 + (10e9,) * 60, slow=40, attempts=ATTEMPTS)
    listed = NodeRates(**{name: getattr(many, name) for name in many.__struct_fields__ if name != "slowest"},
                       slowest=many.slowest[:LISTED])
    printed = block(table_of(listed, 100))
    assert printed.count("...... FAILED") == 1 + LISTED
    assert f"  slow: {40 - LISTED} more nodes, not listed" in printed


def test_a_rate_that_was_not_measured_has_no_verdict() -> None:
    skipped = (ONLY_GPUS, SkippedRate(quantity=LINKS, why="one node"))
    table = subject_of(raw_of((), skipped, environment()), environment()).entry
    assert table.verdicts == () and table.verdict == "PASSED"
