"""Figures of an ensemble that are counted anew from kept predictions; and what samples drawn from all can say."""

import numpy as np
import pytest

from hpcai.formulas.recount import confirmed
from hpcai.frozen import votes
from hpcai.frozen.samples import TRAINING, VALIDATION
from hpcai.frozen.votes import NOBODY, Ensemble, VoteTables, counted, layout

OF = Ensemble(models=3, classes=4, validation=50, training=60)
ENTROPY = 2**64 - 7


def tables() -> VoteTables:
    """A sound evaluation of random outputs, of which all is kept."""
    random = np.random.default_rng(1)
    outputs, bag_outputs = (random.random((3, n, 4)).astype(np.float32) for n in (50, 60))
    out = (random.random((3, 60)) < 0.4).astype(np.uint8)
    sums = (bag_outputs * out[:, :, None]).sum(0)
    return VoteTables(
        labels=random.integers(0, 4, 50).astype(np.uint16),
        models=outputs.argmax(2).astype(np.uint16),
        together=outputs.sum(0).argmax(1).astype(np.uint16),
        outputs=outputs,
        bag_labels=random.integers(0, 4, 60).astype(np.uint16),
        bag_together=np.where(out.any(0), sums.argmax(1), NOBODY).astype(np.uint16),
        bag_outputs=bag_outputs,
        out=out,
    )


def test_the_figures_of_a_sound_evaluation() -> None:
    found = tables()
    made = counted(found, OF, ENTROPY)
    assert (made.samples, made.bag_samples, made.voted, made.wrong_votes) == (50, 60, 110, 0)
    assert made.correct == sum(int(one == other) for one, other in zip(found.together, found.labels, strict=True))
    members = [sum(found.models[model] == found.labels) for model in range(3)]
    assert (made.members_sum, made.members_min, made.members_max) == (sum(members), min(members), max(members))
    pairs = sum(int((found.models[i] == found.models[j]).sum()) for i in range(3) for j in range(i))
    assert made.agreeing_pairs == pairs
    assert made.bag_evaluated == np.count_nonzero(found.out.any(0)) < 60
    assert made.bag_correct == np.count_nonzero(found.bag_together == found.bag_labels)
    assert {name: (kind, shape) for name, (kind, shape) in layout(OF, ENTROPY).items()} == {
        name: (table.dtype.str, table.shape) for name, table in found._asdict().items()
    }


@pytest.mark.parametrize("table", ["together", "models", "bag_together"])
def test_a_class_other_than_the_votes_is_found(table: str) -> None:
    found = tables()
    values = getattr(found, table)
    values[..., 7] = (values[..., 7] + 1) % 4
    assert counted(found, OF, ENTROPY).wrong_votes >= 1


def test_models_that_vote_on_their_own_samples_are_found() -> None:
    found = tables()
    found.out[:] = 1 - found.out
    assert counted(found, OF, ENTROPY).wrong_votes > 10


def test_outputs_that_are_no_numbers_are_no_wrong_votes() -> None:
    found = tables()
    found.outputs[0], found.bag_outputs[0] = np.nan, np.nan
    found.models[0] = 0
    assert counted(found, OF, ENTROPY).wrong_votes == 0


def test_of_many_models_some_samples_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(votes, "CLASSES_NBYTES", 2 * 3 * 20)
    monkeypatch.setattr(votes, "OUTPUTS_NBYTES", 4 * 3 * 4 * 5)
    kept, bag = OF.sampled(VALIDATION, ENTROPY), OF.sampled(TRAINING, ENTROPY)
    assert 10 < len(kept.samples) <= 20 and 1 < len(kept.voted) <= 5
    assert np.array_equal(bag.samples, np.arange(60)) and 1 < len(bag.voted) <= 5
    assert all((np.diff(part) > 0).all() for part in (*kept, *bag))
    assert kept.samples[-1] < 50 and kept.voted[-1] < len(kept.samples)
    assert not np.array_equal(kept.samples, OF.sampled(VALIDATION, ENTROPY - 1).samples)
    largest = Ensemble(10**7, 1000, 50, 60).sampled(VALIDATION, ENTROPY)
    assert not len(largest.samples) and not len(largest.voted)


def test_no_sample_is_out_of_the_bag_of_one_model() -> None:
    assert not len(Ensemble(1, 4, 50, 60).sampled(TRAINING, ENTROPY).samples)


def test_sums_over_all_samples_must_be_equal() -> None:
    assert confirmed(7, 50, 7, 50)
    assert not confirmed(7, 50, 8, 50)
    assert confirmed(7, 50, 8, 50, near=1)


def test_sums_over_samples_drawn_may_differ_by_chance() -> None:
    random = np.random.default_rng(2)
    right = random.random(100_000) < 0.7
    for _ in range(200):
        drawn = right[random.integers(0, len(right), 2000)]
        assert confirmed(int(drawn.sum()), len(drawn), int(right.sum()), len(right))
    found, whole = int(right[:2000].sum()), len(right)
    assert not confirmed(found, 2000, int(right.sum() * 1.1), whole)
    assert not confirmed(10 * found, 2000, int(10 * right.sum() * 1.1), whole, scale=10)
