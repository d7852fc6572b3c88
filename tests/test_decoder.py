"""Decoder networks: shapes, counts against torch's own counter, causality, positions, and refusals."""

import pytest
import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from hpcai import networks
from hpcai.errors import InputError
from hpcai.models.module import Network, build
from hpcai.models.operation_counter import Executed
from hpcai.networks.decoder import DECODERS
from hpcai.networks.graph import Graph, Layer
from hpcai.networks.layers import Add, Dense
from hpcai.opcount import count
from hpcai.opcount.__main__ import main as opcount_main
from hpcai.train import precision

BATCH, SYMBOLS = 2, 256
LARGE = ("decoder24x1024", "decoder32x4096")


def graph_of(name: str, places: int = 24) -> Graph:
    return networks.build(name, (1, places), 1, SYMBOLS)


def symbols(places: int, seed: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, SYMBOLS, (BATCH, 1, 1, places), generator=generator).float()


def masked_half(name: str, places: int) -> int:
    """Operations of the masked places of a forward pass, which torch counts and the rule does not."""
    sizes = DECODERS[name]
    return BATCH * sizes.blocks * 2 * 2 * sizes.width * (places * (places - 1) // 2)


@pytest.mark.parametrize("name", [name for name in DECODERS if name not in LARGE])
def test_counts_equal_those_of_torch_without_the_masked_half(name: str) -> None:
    places = 24
    graph = graph_of(name, places)
    counted, masked = count(graph, "model"), masked_half(name, places)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        logits = Network(graph)(torch.empty(BATCH, 1, 1, places, device="meta"))
        forward = counter.get_total_flops()
        logits.sum().backward()
    assert forward - masked == BATCH * counted.forward
    assert counter.get_total_flops() - forward - 2 * masked == BATCH * counted.backward


def test_executed_operations_are_those_counted() -> None:
    graph = graph_of("decoder2x64")
    network, x = build(graph, 1), symbols(24)
    executed = Executed(network)
    executed.learn(network, x)
    executed.add(x)
    network(x).sum().backward()
    executed.end_backward()
    assert executed.operations == BATCH * count(graph, "model").total


def test_published_sizes() -> None:
    """Al-Rfou et al. (2019) have 44 M parameters in 12 layers of 512, with a feed-forward part of 2048."""
    parameters = {name: sum(graph_of(name).parameters.values()) for name in DECODERS}
    assert parameters["decoder4x128"] == 885_888 and parameters["decoder12x512"] == 38_679_040


def test_no_place_sees_a_later_one() -> None:
    network, x = build(graph_of("decoder2x64"), 3).eval(), symbols(24)
    changed = x.clone()
    changed[..., 12:] = (changed[..., 12:] + 1) % SYMBOLS
    before, after = network(x), network(changed)
    torch.testing.assert_close(before[:, :12], after[:, :12])
    assert not torch.allclose(before[:, 12:], after[:, 12:])


def test_places_of_equal_symbols_differ() -> None:
    """Without positions, attention to equal symbols is the same wherever they stand."""
    network, x = build(graph_of("decoder2x64"), 3).double().eval(), symbols(8).double()
    moved = x.clone()
    moved[..., 0], moved[..., 1] = x[..., 1], x[..., 0]
    assert not torch.allclose(network(x)[:, -1], network(moved)[:, -1])


def test_the_output_has_the_weights_of_the_embedding() -> None:
    graph = graph_of("decoder2x64")
    network = build(graph, 1)
    assert [name for name, _ in network.named_children()].count("embedding") == 1
    assert "output" not in dict(network.named_children()) and "output" not in graph.parameters


@pytest.mark.parametrize("name", ["bf16", "fp16", "pure16", "halffp16", pytest.param("int8", marks=pytest.mark.slow)])
def test_every_precision_maps_symbols_to_fp32_logits_with_nearly_the_gradients_of_fp32(name: str) -> None:
    """Rows of the embedding have the type of products, in which stages send them."""
    found = {}
    for each in ("fp32", name):
        module = build(graph_of("decoder2x64"), 1)
        precision.apply(each, module, torch.device("cpu"))
        rows: list[torch.Tensor] = []
        module.embedding.register_forward_hook(lambda part, given, output, rows=rows: rows.append(output))
        logits = module(symbols(24))
        assert logits.dtype == torch.float32 and rows[0].dtype == precision.kind_of(each)
        functional.cross_entropy(logits.flatten(0, 1), symbols(24, 2).flatten().long()).backward()
        found[each] = {key: value.grad.float() for key, value in module.named_parameters()}
    worst = max(float((found[name][key] - exact).norm() / exact.norm()) for key, exact in found["fp32"].items())
    assert 0 < worst < 0.1


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        ((Layer("d", Dense(SYMBOLS), ("norm",), shares="embedding"),), "computes something else"),
        ((Layer("sum", Add(), ("norm", "symbols")),), "different shapes"),
    ],
)
def test_what_does_not_fit_is_refused(layers: tuple[Layer, ...], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Graph((*graph_of("decoder2x64").layers[:-2], *layers))


def test_sequences_without_places_are_refused() -> None:
    with pytest.raises(InputError, match="must be at least 1"):
        networks.build("decoder2x64", (1, 0), 1, SYMBOLS)


def test_the_table_of_operations_is_of_a_sequence_with_the_published_approximation(
    capsys: pytest.CaptureFixture[str],
) -> None:
    opcount_main(["decoder4x128", "--rule", "model", "--image", "1x128"])
    title, *rows, approximation = capsys.readouterr().out.splitlines()
    assert title == "decoder4x128, sequence of 128 bytes: operations per sequence by rule model"
    width, hidden, places, blocks = 128, 384, 128, 4
    dense = 256 * width + blocks * (4 * width**2 + 3 * width * hidden)
    (counted,) = (row.split() for row in rows if row.startswith("dense"))
    assert counted[:3] == ["dense", str(1 + 4 * blocks), f"{2 * places * dense:,}"]
    parameters = dense + (2 * blocks + 1) * width
    assert approximation.startswith(f"6 x {parameters:,} parameters x 128 bytes: {6 * parameters * places:,}, ")
