"""The evaluation of language models, alone and together, compared with one of all outputs in one place."""

from math import log
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tiny import CPU, alone, unending
from torch import Tensor, nn

from hpcai.comm.grid import Group, split
from hpcai.data.bootstrap import sampler
from hpcai.data.order import ValidationShard
from hpcai.data.text.generated_text import GeneratedText
from hpcai.data.text.text_dataset import UNCOUNTED, VALUES, Sequences
from hpcai.data.text.text_files import Windows
from hpcai.data.text.text_loader import Loader
from hpcai.formulas.sample_fingerprint import expected_fingerprint
from hpcai.formulas.score import LARGEST, paired_errors
from hpcai.frozen.samples import VALIDATION
from hpcai.train.text_ensemble import evaluate, evaluate_out_of_bag
from hpcai.train.text_validation import TextValidation

PLACES, SEED, BATCH = 6, 4, 4
Doubles = NDArray[np.float64]


class Scores(nn.Module):
    """A model that scores the next byte by the byte alone."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.table = torch.from_numpy(np.random.default_rng(number).standard_normal((VALUES, VALUES))).float()

    def forward(self, x: Tensor) -> Tensor:
        assert not self.training
        return self.table[x[:, 0, 0].long()]

    def chances(self, data: Sequences) -> Doubles:
        """Probabilities of all bytes after each, float64[n, S, VALUES], by definition."""
        before = data.sequences(np.arange(len(data)))[:, :-1].astype(np.int64)
        return torch.softmax(self.table[torch.from_numpy(before)].double(), 2).numpy()


def counted(data: Sequences) -> NDArray[np.bool_]:
    return np.arange(PLACES) >= data.uncounted(np.arange(len(data)))[:, None]


def bits_of(chances: Doubles, data: Sequences) -> Doubles:
    """Bits of each sequence by the probabilities of all bytes."""
    after = data.sequences(np.arange(len(data)))[:, 1:].astype(np.int64)
    own = np.take_along_axis(chances, after[:, :, None], 2)[:, :, 0]
    return np.asarray((-np.log2(own) * counted(data)).sum(1))


def validation(data: Sequences, group: Group) -> TextValidation:
    shard = ValidationShard(len(data), group.coordinates.member, group.degree, BATCH)
    return TextValidation(Loader(data, CPU, batch=BATCH), shard)


def windows() -> Windows:
    return Windows(np.random.default_rng(1).integers(0, VALUES, 60, np.uint8), PLACES)


@pytest.mark.parametrize("data", [GeneratedText(SEED, 2, 11, PLACES), windows()], ids=["generated", "windows"])
def test_a_validation_has_the_bits_of_all_counted_bytes(data: Any) -> None:
    model = Scores(1)
    found = validation(data, alone()).run(model, alone())
    bits = bits_of(model.chances(data), data)
    assert found.bits == pytest.approx(bits.sum(), rel=1e-6)
    assert found.predicted == data.predicted == counted(data).sum()
    assert (found.counted, found.fingerprint) == (len(data), expected_fingerprint(len(data)))
    source = data.bits(np.arange(len(data)))
    if source is None:
        assert found.differences is found.difference_squares is None
    else:
        assert found.differences == pytest.approx((bits - source).sum(), rel=1e-5)
        assert found.difference_squares == pytest.approx(((bits - source) ** 2).sum(), rel=1e-5)


def test_outputs_that_are_no_numbers_cost_the_most() -> None:
    model, data = Scores(1), GeneratedText(SEED, 2, 3, PLACES)
    model.table[:] = torch.nan
    found = validation(data, alone()).run(model, alone())
    assert found.not_finite == 3 * PLACES * VALUES and found.bits == 3 * PLACES * LARGEST
    assert found.point(1, 1.0, 1.0).loss is None


@pytest.mark.slow
@pytest.mark.parallel(3)
def test_the_ensemble_has_the_mean_of_all_models_probabilities() -> None:
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    data, train = GeneratedText(SEED, 2, 4 * BATCH + 3, PLACES), GeneratedText(SEED, 1, 30, PLACES)
    for models in range(1, world.size + 1):
        group = split(world, models, 1, "row")
        if group is None:
            continue
        draws = [sampler("multinomial", len(train), SEED, number, models) for number in range(models)]
        own, members = group.coordinates.group, [Scores(number) for number in range(models)]
        evaluated = validation(data, group)
        together = evaluate(members[own], group, evaluated, unending(), VALIDATION)
        chances = np.stack([model.chances(data) for model in members])
        assert together.sums.bits == pytest.approx(bits_of(chances.mean(0), data).sum(), rel=1e-6)
        assert (together.sums.predicted, together.evaluated, together.miscounted) == (data.predicted, len(data), 0)
        likely = chances.argmax(3)
        pairs = sum((likely[one] == likely[other]).sum() for one in range(models) for other in range(one))
        assert together.agreeing_pairs == pairs
        loader = Loader(train, CPU, batch=BATCH)
        bag = evaluate_out_of_bag(members[own], group, evaluated, loader, draws[own], unending())
        check_bag(bag, members, train, draws)
        group.free()


def check_bag(found: Any, members: list[Scores], train: GeneratedText, draws: list[Any]) -> None:
    """Each training sequence by the mean of the models that did not draw it."""
    if len(members) == 1:
        assert found is None
        return
    out = np.stack([~each.in_bag(0, len(train)) for each in draws])
    some = out.any(0)
    chances = np.stack([model.chances(train) for model in members])[:, some]
    weights = out[:, some, None, None] / out[:, some].sum(0)[:, None, None]
    after = train.sequences(np.flatnonzero(some))[:, 1:].astype(np.int64)
    own = np.take_along_axis((chances * weights).sum(0), after[:, :, None], 2)
    assert found.evaluated == some.sum() and found.sums.predicted == some.sum() * PLACES
    assert found.sums.bits == pytest.approx(-np.log2(own).sum(), rel=1e-6)


def test_paired_errors() -> None:
    """Of four differences with mean -1 and deviation 2 of a sample: -1 / (2 / sqrt 4)."""
    differences = np.array([-1 - 3**0.5, -1 + 3**0.5, -1 - 3**0.5, -1 + 3**0.5])
    assert differences.std(ddof=1) == pytest.approx(2)
    sums = float(differences.sum()), float(np.square(differences).sum())
    assert paired_errors(*sums, 4) == pytest.approx(1.0)
    assert paired_errors(4.0, 16.0, 4) == 0.0
    assert paired_errors(-4.0, 4.0, 4) == LARGEST  # each by one bit


def test_uncounted_bytes_have_no_gradient() -> None:
    """The objective leaves them out, as the evaluation does."""
    from hpcai.train.objective import Classification

    logits = torch.zeros(2, PLACES, VALUES, requires_grad=True)
    y = torch.zeros(2, PLACES, dtype=torch.int64)
    y[1, :4] = UNCOUNTED
    loss = Classification(0.0)(lambda x: x, logits, y, 0)
    loss.backward()
    assert float(loss.detach()) == pytest.approx(log(VALUES)) and logits.grad is not None
    assert not logits.grad[1, :4].any() and logits.grad[1, 4:].any(1).all() and logits.grad[0].any(1).all()
