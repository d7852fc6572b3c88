"""Networks of a search from its history: in any order, and impossible ones refused in one line."""

import pytest
import trial_records
from synthetic_search import searched

from hpcai.errors import InputError
from hpcai.networks import build
from hpcai.networks.lineage import lineage, morphed
from hpcai.networks.morphism import Deepen, Morphism, Skip, Widen
from hpcai.record.loading import result_of
from hpcai.record.trial import Trial

INITIAL = build("resnet8", (8, 8), 1, 10)
WIDER = Widen("stage1_block1_conv1", 24)
DEEPER = Deepen("stem_relu", 3)
BRANCH = Skip("stem_relu", "stage2_block1_norm1")


def trial(number: int, parent: int | None, *morphisms: Morphism) -> Trial:
    return trial_records.trial(id=number, parent=parent, morphisms=morphisms)


def test_each_network_is_its_parents_changed() -> None:
    found = lineage(INITIAL, [trial(1, None), trial(2, 5, BRANCH), trial(5, 1, WIDER, DEEPER)])
    assert found[1] == INITIAL
    assert found[5] == Deepen("stem_relu", 3).apply(Widen("stage1_block1_conv1", 24).apply(INITIAL))
    assert found[2] == morphed(found[5], [BRANCH]) != found[5]
    assert lineage(INITIAL, []) == {}


def test_a_lineage_of_a_thousand_trials() -> None:
    found = lineage(INITIAL, [trial(1000 - n, 999 - n if n < 999 else None) for n in range(1000)])
    assert len(found) == 1000 and set(map(id, found.values())) == {id(INITIAL)}


@pytest.mark.parametrize(
    ("trials", "why"),
    [
        ([trial(1, 2)], "trial 1 descends from trial 2, which does not exist"),
        ([trial(1, 1)], "descends from itself"),
        ([trial(1, 2), trial(2, 3), trial(3, 2)], "trial 1 descends from trial 2, which descends from itself"),
        ([trial(1, None, Widen("nowhere", 9))], "cannot be widened"),
        ([trial(1, None, DEEPER), trial(2, 1, Widen("stage1_block1_conv1", 1))], "cannot be widened to 1"),
    ],
)
def test_impossible_histories_are_refused(trials: list[Trial], why: str) -> None:
    with pytest.raises(InputError, match=why):
        lineage(INITIAL, trials)


def test_an_unknown_morphism_of_a_result_is_refused_by_name() -> None:
    result = searched()
    result_of(result)
    trials = next(test for test in result["tests"] if test["workload"] == "nas")["raw"]["trials"]
    next(trial for trial in trials if trial["morphisms"])["morphisms"] = [{"operation": "shrink"}]
    with pytest.raises(InputError, match="shrink"):
        result_of(result)
