"""What `--check` plans and prints."""

import re
from typing import Any

import pytest
import torch
from report_readers import LOOSE_ROW, ROW
from small_run import INPUT

from hpcai import estimate, opcount
from hpcai.errors import InputError
from hpcai.inputfile import Problem, parse
from hpcai.networks import build
from hpcai.report import plan
from hpcai.workloads import prepare


def problem(*options: str) -> Problem:
    return parse(INPUT.read_text(), options)


def plans(problem: Problem, ranks: int) -> list[dict[str, Any]]:
    """The plan of each case on CPUs, in this process, which is left its threads."""
    return [prepare.plan(case, torch.device("cpu")) for case in problem.cases(ranks)]


def test_plan_by_hand() -> None:
    """200 samples: 7 steps of 32 on one rank, 4 of 32 on two; in each epoch 2,000 pictures are judged."""
    first, second = plans(problem(), 2)
    assert (first["steps"], second["steps"]) == (14, 8)
    graph = build("resnet8", (28, 28), 1, 10)
    assert first["nbytes"] == estimate.memory(graph, 32, ranks=1)["total"]
    assert second["nbytes"] == estimate.memory(graph, 32, ranks=2)["total"] > first["nbytes"]
    count = opcount.count(graph, "model")
    work = [samples * 2 * count.total + 2000 / q * 2 * count.forward for q, samples in ((1, 200), (2, 100))]
    assert first["seconds"] / second["seconds"] == pytest.approx(work[0] / work[1])


def test_zeros_of_the_grid_are_resolved_for_the_ranks() -> None:
    (test,) = plans(problem("GROUPS=0", "DEGREE=4"), 100_003)
    assert (test["settings"]["GROUPS"], test["settings"]["DEGREE"]) == (25_000, 4)
    row = plan.text("x", 100_003, [test]).splitlines()[3]
    assert row.split()[:6] == ["1", "32", "25000", "4", "3", "resnet8"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["SAMPLES=6001"], "test 1 cannot be run: 6001 training samples"),
        (["SAMPLES=2", "DEGREE=1,2"], "test 2 cannot be run: 2 training samples for 2 ranks"),
        (["GROUPS=3", "DEGREE=1"], "needs 3"),
    ],
)
def test_what_cannot_be_run_is_refused(options: list[str], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        prepare.check(problem(*options).cases(2))


def test_text() -> None:
    settings = {"BATCH": 32, "GROUPS": 2, "DEGREE": 3, "NETWORK": "resnet50"}
    tests = [{"settings": settings, "steps": 14, "nbytes": 3 * 2**29, "seconds": 6.04}] * 2
    lines = plan.text("my.dat", 8, tests).splitlines()
    assert lines[0] == "my.dat: 2 tests, planned for 8 ranks; nothing was run"
    assert re.sub(" +", " ", lines[1]) == " Test NB P Q Idle ranks Network Steps GiB per rank Seconds"
    assert lines[2] == "-" * len(lines[1]) == "-" * len(lines[3])
    assert lines[3].split() == ["1", "32", "2", "3", "2", "resnet50", "14", "1.500", "6.0"]
    assert lines[4].split()[0] == "2" and lines[5].split() == ["in", "all", "12.1"]
    assert all(len(line) <= 200 for line in lines)


def test_a_plan_is_not_taken_for_a_result() -> None:
    text = plan.text("x", 2, plans(problem(), 2))
    assert "WR" not in text and not LOOSE_ROW.search(text)
    assert not any(ROW.match(line) for line in text.splitlines())
