"""Sums joined with the RMS norms that read them: the network computes what it does layer by layer."""

from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.profiler import profile

from hpcai import networks
from hpcai.models.added_norms import AddedNorm
from hpcai.models.module import Network, build
from hpcai.train.operator_classes import operator_class
from hpcai.train.providers import Choice, use_custom, use_vendor

PLACES, SYMBOLS, NORMS = 40, 32, 5  # of decoder2x64, the first of which reads no sum


def decoder() -> Network:
    return build(networks.build("decoder2x64", (1, PLACES), 1, SYMBOLS), 3)


SAMPLES = torch.randint(SYMBOLS, (3, 1, 1, PLACES), generator=torch.Generator().manual_seed(1)).float()


FOLLOWING = SAMPLES.roll(-1).long().flatten()


def step(network: nn.Module) -> list[Tensor]:
    """Loss and all gradients."""
    loss = cross_entropy(network(SAMPLES).flatten(0, 1), FOLLOWING)
    return [loss, *torch.autograd.grad(loss, [*network.parameters()])]


def joined(network: Network) -> list[str]:
    """Names of the norms that are computed with a sum."""
    functions = [(name, getattr(function, "__self__", None)) for name, function, *_ in network.steps]
    return [name for name, owner in functions if isinstance(owner, AddedNorm)][1::2]


def assert_close(own: list[Tensor], right: list[Tensor]) -> None:
    for one, other in zip(own, right, strict=True):
        assert (one - other).abs().max() < 1e-4 * other.abs().max()


def test_a_decoder_is_as_the_vendors_layers_have_it() -> None:
    network = decoder()
    right = step(network)
    use_custom(network)
    assert joined(network) == ["block1_units_norm", "block2_attention_norm", "block2_units_norm", "norm"]
    assert_close(step(network), right)
    with torch.no_grad():
        own = network(SAMPLES)
    use_vendor(network)
    assert not joined(network)
    assert_close([own], [network(SAMPLES)])


def test_only_chosen_norms_are_joined() -> None:
    network = decoder()
    use_custom(network, Choice({}, ["block2_units_norm", "block1_attention"]))
    assert joined(network) == ["block2_units_norm"]


def test_one_call_computes_a_sum_and_its_norm() -> None:
    network = decoder()
    use_custom(network)
    with profile() as recorded:
        step(network)
    calls = {event.key: event.count for event in recorded.key_averages()}
    assert calls["AddedNorm"] == NORMS - 1 and calls["RmsNorm"] == 1
    assert operator_class("AddedNormBackward") == "normalisation"
    assert not {name for name in calls if operator_class(name) is None}


def test_other_types_are_computed_one_by_one() -> None:
    network = decoder().double()
    right = step(network)
    use_custom(network)
    assert_close(step(network), right)


def test_a_copy_computes_by_its_own_weights() -> None:
    network = decoder()
    use_custom(network)
    copy = deepcopy(network)
    with torch.no_grad():
        copy.get_parameter("norm.weight").zero_()
    assert not copy(SAMPLES).any() and network(SAMPLES).any()

