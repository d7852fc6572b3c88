"""Cases without the groups that have lost a rank, and what a result says of them."""

from pathlib import Path

import pytest
from launch import ROOT
from test_architecture import HPCAI, attributes, violations

from hpcai.attempts import without_lost
from hpcai.comm import communicators, survival
from hpcai.comm.communicators import RankLost
from hpcai.inputfile import Case, parse
from hpcai.results.lost_groups import lost_ranks, tells_of_lost_ranks

IMAGES = "\nfashion DATASET\n8 BATCH"


def case_of(settings: str, ranks: int = 6) -> Case:
    text = f"a\nb\n{settings.replace('[ensemble]', '[ensemble]' + IMAGES)}\n"
    return parse(text, ranks=ranks).cases(ranks)[0]


def test_a_case_goes_on_without_the_groups_that_have_lost_a_rank() -> None:
    rows = case_of("[ensemble]\n3 GROUPS\n2 DEGREE")
    columns = case_of("[ensemble]\n3 GROUPS\n2 DEGREE\ncolumn MAPPING")
    assert without_lost(rows, []) is rows
    left = without_lost(rows, [3, 4])
    assert left and (left.lost, left.models, left.groups, left.planned_groups) == ((1, 2), [0], 1, 3)
    left = without_lost(columns, [3, 4])
    assert left and left.lost == (0, 1)
    assert without_lost(rows, [1, 3, 5]) is None
    assert without_lost(case_of("[ensemble]\n2 GROUPS\n2 DEGREE"), [5]).lost == ()  # type: ignore[union-attr]
    assert without_lost(case_of("[kernels]\n16 SHAPES"), [1]) is None


@pytest.mark.parametrize("lost", [[3], [-1], [0, 1, 2]])
def test_only_groups_of_a_case_can_be_left_out(lost: list[int]) -> None:
    with pytest.raises(ValueError, match="left"):
        case_of("[ensemble]\n3 GROUPS\n2 DEGREE").without(lost)


def test_the_cause_of_a_run_that_cannot_go_on_names_ranks_of_the_job() -> None:
    assert lost_ranks([3]) == "loss of rank 3" and lost_ranks([3, 4, 7]) == "loss of rank 3 and 2 more"
    assert tells_of_lost_ranks("loss of rank 3 and 2 more", 6) and tells_of_lost_ranks("loss of rank 3", 4)
    for cause in ("loss of rank 0", "loss of rank 4", "loss of rank 3 and 1 more", "loss of rank 3 and 0 more", "loss"):
        assert not tells_of_lost_ranks(cause, 4), cause


def test_without_open_mpis_switch_an_error_ends_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMPI_MCA_mpi_ft_enable", raising=False)
    called = []
    survival.defer(lambda: called.append(True))
    assert called == [True] and not communicators.outlast()
    with pytest.raises(RankLost):
        survival.recover(None, RankLost("gone"))  # type: ignore[arg-type]


def test_communicators_are_made_where_a_loss_can_interrupt_them() -> None:
    makers = tuple(f".{name}" for name in ("Split", "Split_type", "Dup", "Create", "Create_group", "Clone"))
    places = [ROOT / "hpcai/comm/communicators.py", ROOT / "hpcai/comm/world.py"]

    def made(path: Path) -> list[str]:
        return [name for name in attributes(path) if name.endswith(makers)]

    assert len(list(violations(places, made))) == 2
    assert not violations([path for path in HPCAI if path not in places], made)
