"""The printed table of collectives, and the conditions on its raw numbers due to the input and the machine."""

import re
from collections.abc import Callable

import pytest
from examples.comm import subject_of
from msgspec import ValidationError
from report_readers import LOOSE_ROW
from sample_collectives import CLUSTER, NODE, case_of, raw_of, row, single_node, two_nodes
from sample_records import MEMORY, altered, with_fields

from hpcai.formulas.collectives import COLLECTIVES, ONE_RANK
from hpcai.inputfile import Case
from hpcai.record.machine import Environment
from hpcai.results.alterations import Alteration, appended, changed, removed, repeated
from hpcai.results.claim import violated as violated_claims
from hpcai.results.measured import Before, Measured
from hpcai.workloads.comm.checks import blocks, build, rows
from hpcai.workloads.comm.claims import CLAIMS
from hpcai.workloads.comm.lines import block
from hpcai.workloads.comm.record import CollectiveRow, CommRaw

# As readers of nccl-tests' output parse its rows, with one set of times instead of two.
TABLE_ROW = re.compile(r"^ +(\d+) +(\d+) +(\w+) +(\w+) +(-?\d+) +([\d.]+) +([\d.]+) +([\d.]+) +(\d+)$", re.MULTILINE)


def printed(case: Case, raw: CommRaw) -> tuple[str, tuple[CollectiveRow, ...]]:
    found = rows(case, raw)
    return block(build(case, Measured(raw, MEMORY), Before()), found), found


def broken(case: Case, raw: CommRaw, environment: Environment = NODE) -> list[str]:
    """The claims that a table with these measurements violates."""
    return list(violated_claims(CLAIMS, subject_of(case, raw, environment)))


def test_rows_have_the_layout_of_nccl_tests() -> None:
    text, found = printed(*single_node())
    rows = TABLE_ROW.findall(text)
    assert len(rows) == len(found) == 2 * 4 * (3 * 4 + 2)  # backends, sizes; in three scopes, and in phases in one
    for words, each in zip(rows, found, strict=True):
        exact = (each.nbytes, each.count, each.type, each.redop, each.root)
        assert words[:5] == tuple(map(str, exact))
        assert float(words[5]) == pytest.approx(1e6 * each.seconds, abs=0.01)
        assert [float(word) for word in words[6:8]] == pytest.approx([each.algbw / 1e9, each.busbw / 1e9], abs=0.001)
        assert words[8] == str(each.wrong)
    header = "#       size         count      type   redop    root "
    assert text.count(header) == len(blocks(found)) == 28
    averages = re.findall(r"^# Average bus bandwidth, (\w+) over (\w+) by (\w+): [\d.]+ GB/s \.{6} PASSED$", text, re.M)
    assert averages == [*blocks(found)]
    assert "# Average bus bandwidth of all 112 rows: " in text
    assert "Skipped: node: the same ranks as world\nSkipped: between: one rank\n" in text


def test_no_line_is_a_row_to_parsers_of_hpl() -> None:
    case, raw = two_nodes()
    text, _ = printed(case, with_fields(raw, rows=[*raw.rows, row("broadcast", 2**40, seconds=1e5)]))
    for line in text.splitlines():
        assert not LOOSE_ROW.search(line) and "WR" not in line and " Gflops" not in line and len(line) <= 200, line


def test_a_wrong_element_fails_its_block_and_the_test() -> None:
    case, raw = single_node()
    text, _ = printed(case, altered(raw, changed("rows.0.wrong", 12)))
    assert len(re.findall("FAILED$", text, re.MULTILINE)) == 2
    assert "Collectives, test 3: P x Q = 2 x 2, mapped by row ...... FAILED" in text
    assert re.search(r"^# Average bus bandwidth, all_reduce over world by gloo: .* FAILED$", text, re.MULTILINE)
    assert TABLE_ROW.findall(text)[0][8] == "12"


def test_a_table_without_measurements_is_reported() -> None:
    skipped = dict.fromkeys(("world", "group", "across", "node", "between"), ONE_RANK)
    case = case_of(1, 1)
    raw = raw_of(case, {}, skipped)
    text, _ = printed(case, raw)
    assert text.count(": one rank\n") == 5 and text.count("PASSED") == 1
    assert broken(case, raw) == []


def test_models_that_fit_are_printed_with_their_bandwidth() -> None:
    case = case_of(1, 2, (1024, 2**20))
    raw = raw_of(case, {"world": 2}, {}, lambda nbytes: 25e-6 + nbytes * 0.5e-9)
    text, _ = printed(case, raw)
    assert re.search(r"^ +broadcast +world +mpi +25\.00 +2\.000 +0\.0$", text, re.MULTILINE)
    flat = raw_of(case, {"world": 2}, {}, lambda nbytes: 1e-3)
    assert re.search(r"^ +broadcast +world +mpi +1000\.00 +n/a +0\.0$", printed(case, flat)[0], re.MULTILINE)


@pytest.mark.parametrize("made", [single_node, two_nodes])
def test_sound_measurements_fulfil_every_claim(made: Callable[[], tuple[Case, CommRaw]]) -> None:
    assert broken(*made(), NODE if made is single_node else CLUSTER) == []


def test_skipped_rows_are_printed_and_accepted() -> None:
    case = case_of(1, 3, (8, 1024))
    skipped = {"group": "the same ranks as world", "across": ONE_RANK, "node": "the same ranks as world"}
    raw = raw_of(case, {"world": 3}, {**skipped, "between": ONE_RANK})
    divided = [name for name, kind in COLLECTIVES.items() if kind.divided]
    which = [{"scope": "world", "by": by, "collective": name} for by in ("gloo", "mpi") for name in divided]
    assert broken(case, raw), "small sizes are missing"
    raw = with_fields(raw, too_small=[{**each, "nbytes": 8} for each in which])
    assert len(raw.too_small) == 4 and broken(case, raw) == []
    assert "Skipped: world, all_gather by mpi, 8 B: less than one element for each rank\n" in printed(case, raw)[0]
    left = [each for each in raw.rows if (each.by, each.collective) != ("gloo", "all_gather")]
    small = [each for each in raw.too_small if (each.by, each.collective) != ("gloo", "all_gather")]
    raw = with_fields(raw, rows=left, too_small=small)
    assert broken(case, raw)
    lacking = {"scope": "world", "by": "gloo", "collective": "all_gather", "why": "not supported"}
    raw = with_fields(raw, unsupported=[lacking])
    assert broken(case, raw) == []
    assert "Skipped: world, all_gather by gloo: not supported\n" in printed(case, raw)[0]


def _renamed(raw: CommRaw, old: str, new: str) -> CommRaw:
    """The rows of one backend are attributed to another."""
    return with_fields(raw, rows=[with_fields(each, by=new) if each.by == old else each for each in raw.rows])


def _without(raw: CommRaw, scope: str) -> CommRaw:
    """A scope is missing."""
    left = [each for each in raw.rows if each.scope != scope]
    return with_fields(raw, rows=left, skipped=[each for each in raw.skipped if each.scope != scope])


def _skipped(raw: CommRaw, scope: str, why: str) -> CommRaw:
    """A scope is reported as skipped, whether it was measured or not."""
    return altered(_without(raw, scope), appended("skipped", {"scope": scope, "why": why}))


def _by(alteration: Alteration) -> Callable[[CommRaw], CommRaw]:
    return lambda raw: altered(raw, alteration)


_BROADCAST = {"scope": "world", "by": "mpi", "collective": "broadcast"}
ALTERATIONS: dict[str, Callable[[CommRaw], CommRaw]] = {
    "a row less": _by(removed("rows.-1")),
    "a row twice": _by(repeated("rows.-1")),
    "rows exchanged": lambda raw: with_fields(raw, rows=[raw.rows[-1], *raw.rows[:-1]]),
    "another size": _by(changed("rows.0.nbytes", 2048)),
    "another count": _by(changed("rows.0.count", 255)),
    "another operation": _by(changed("rows.0.redop", "none")),  # measured rows have none of their own
    "another root": _by(changed("rows.0.root", 0)),
    "no time": _by(changed("rows.0.seconds", 0.0)),
    "one iteration": _by(changed("rows.0.iterations", 1)),
    "other ranks": _by(changed("rows.0.ranks", 3)),
    "other ranks everywhere": _by(changed("rows.*.ranks", 3)),
    "a GPU's backend": lambda raw: _renamed(raw, "gloo", "nccl"),
    "MPI alone": lambda raw: _renamed(raw, "gloo", "mpi"),
    "no MPI": lambda raw: _renamed(raw, "mpi", "nccl"),
    "a scope unheard of": lambda raw: _without(raw, "between"),
    "a scope skipped": lambda raw: _skipped(raw, "world", ONE_RANK),
    "nothing at all": lambda raw: with_fields(raw, rows=[], skipped=[]),
    "lacking in MPI": _by(appended("unsupported", {**_BROADCAST, "why": "slow"})),
    "a size left out": _by(appended("too_small", {**_BROADCAST, "nbytes": 1024})),
}
BY_TYPE = {"another operation", "another root", "no time", "one iteration"}  # not a record of this kind


@pytest.mark.parametrize("made", [single_node, two_nodes])
@pytest.mark.parametrize("alteration", ALTERATIONS)
def test_every_alteration_is_refused(alteration: str, made: Callable[[], tuple[Case, CommRaw]]) -> None:
    case, raw = made()
    if alteration in BY_TYPE:
        with pytest.raises(ValidationError):
            ALTERATIONS[alteration](raw)
    else:
        assert broken(case, ALTERATIONS[alteration](raw), NODE if made is single_node else CLUSTER)


def test_nodes_follow_from_the_machine() -> None:
    case, raw = two_nodes()
    assert broken(case, raw)
    wider = [with_fields(each, ranks=4) if each.scope == "node" else each for each in raw.rows]
    assert broken(case, with_fields(raw, rows=wider), CLUSTER)  # 4 x 2 ranks of 6
