"""Comparison of a network with its forward pass in NumPy, and of its initial weights with their distribution.

A copy of the network that trains is compared in its own precision and by its own kernels, output by output, and in
fp64 by the vendor's kernels, layer by layer: there only the order of sums differs. What rounding makes of the outputs
is measured: by the fp64 network with random changes of every layer's outputs (Parker, Monte Carlo Arithmetic, 1997).
Images are as small as the network allows, and constants of its layers are varied, so that scales, offsets and running
statistics show.
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from math import prod
from typing import Any

import numpy as np
import torch
from mpi4py import MPI
from numpy.typing import NDArray
from torch import Tensor

from hpcai.formulas.precision import PRECISIONS, Precision
from hpcai.formulas.score import LARGEST
from hpcai.frozen import decoders, residual_networks
from hpcai.frozen.initial_weights import standard_errors
from hpcai.frozen.layer_shapes import Layer, Shape, multiplications, parameters, shapes
from hpcai.frozen.network import Doubles, Values, forward
from hpcai.inputfile import Case
from hpcai.kernels.spec import fp32_tolerance
from hpcai.models.module import Layers, Network
from hpcai.models.sequence_layers import GaussianLinear
from hpcai.networks.graph import Graph
from hpcai.record.preflight import NetworkCheck
from hpcai.record.preflight import Worst as WorstRecord

Worst = tuple[float, str]
Singles = NDArray[np.float32]

EXACT = 1e-8  # difference of outputs in fp64 / their root mean square, at most
MORE = 8.0  # times what random changes of the size of rounding make of the outputs
INNER, QUANTISED = 4096, 4.0  # products of a sum; the step of int8 numbers, / that of as many bits of a float
SAMPLES, VALUES = 2, 8  # of a batch, at least; of a channel in it, at least
LEAST_PIXELS = 4  # of the smallest map, where the images are large enough
MOST_MULTIPLICATIONS = 2**33  # of a batch; networks with more are not compared
NOT_COMPUTED, OF_SYMBOLS = ("input", "softmax"), "embedding"  # kinds of layers
COMPARED = ("convolution", "batch norm", "dense", OF_SYMBOLS, "rms norm", "attention")  # those that are sub-modules
PLACES = 16  # of a sequence


def check_network(
    case: Case, comm: MPI.Comm, module: Layers, graph: Graph, shape: Sequence[int], classes: int
) -> NetworkCheck:
    """The worst deviations of this rank's network, before its first step, and of all ranks. Collective over `comm`.

    shape, classes: of the data. `module` is on its device, in its precision and with its kernels; it is not changed. Of
    a model's part, only the weights are compared.
    """
    layers, image = _described(case, graph, shape, classes)
    weights = _errors_of_weights(module, layers, image, PRECISIONS[case.precision])
    outputs = _outputs(case, module, layers, image) if case.split.parts == 1 else None
    found = comm.allreduce(weights, MPI.MAX), comm.allreduce(outputs or (-1.0, ""), MPI.MAX)
    return NetworkCheck(weights=_record(found[0]), outputs=_record(found[1]) if outputs else None)


def _errors_of_weights(module: Layers, layers: Sequence[Layer], image: Shape, precision: Precision) -> Worst:
    """The tensor farthest off its distribution, in standard errors; copies have the name of the weights themselves."""
    rounding = 2.0**-precision.arithmetic.significand if precision.pure else 0.0
    own = {f"{layer}.weight": f"{tied.weights}.weight" for layer, tied in module.tied.items()}
    values = {own.get(name, name): value for name, value in _values(module).items()}
    return _most((found, name) for name, found in standard_errors(layers, image, values, rounding))


def _record(found: Worst) -> WorstRecord:
    return WorstRecord(value=found[0], where=found[1])


def _most(found: Iterator[Worst]) -> Worst:
    return max(((min(value, LARGEST) if value == value else LARGEST, where) for value, where in found), default=(0, ""))


def _described(case: Case, graph: Graph, shape: Sequence[int], classes: int) -> tuple[Sequence[Layer], Shape]:
    """The layers of a network, and the shape of an image: of known networks by the input alone."""
    if decoders.known(case.network):
        return decoders.layers(case.network, classes), tuple(shape)
    if not residual_networks.known(case.network):
        (image,) = graph.inputs
        return [layer for layer in graph.layers if layer.op.kind not in NOT_COMPUTED], graph.shapes[image.name]
    size = (case.resolution, case.resolution) if case.resolution else tuple(shape[1:])
    return residual_networks.layers(case.network, case.variant, size, classes), (shape[0], *size)


def _before_proposals(layers: Sequence[Layer]) -> Sequence[Layer]:
    """The layers that are compared: a small difference may choose another region."""
    return layers[: next((place for place, layer in enumerate(layers) if layer.op.kind == "proposals"), None)]


def _values(module: torch.nn.Module) -> Values:
    """Parameters and statistics in fp64; on a CPU those of an fp64 module itself, else copies."""
    state = {name: value.detach() for name, value in module.state_dict().items() if value.is_floating_point()}
    return {name: value.double().cpu().numpy() for name, value in state.items()}


def _outputs(case: Case, module: Layers, layers: Sequence[Layer], image: Shape) -> Worst | None:
    """The worst deviation / its bound of this rank's network; None where it has too many layers to compare."""
    if differing := _other_parameters(module, parameters(layers, image)):
        return LARGEST, f"parameters of {differing}"
    layers = _before_proposals(layers)
    small, samples = _smaller(layers, image)
    if samples * multiplications(layers, small) > MOST_MULTIPLICATIONS:
        return None
    copy = deepcopy(module)
    _vary(copy)
    x = _inputs(np.random.default_rng(case.seed), layers[0], (samples, *small))
    return _most(_deviations(copy, layers, x, PRECISIONS[case.precision]))


def _inputs(random: np.random.Generator, first: Layer, size: Shape) -> Singles:
    """Random images, or symbols for a first layer that looks them up."""
    if first.op.kind == OF_SYMBOLS:
        return random.integers(0, first.op.channels, size).astype(np.float32)
    return random.standard_normal(size).astype(np.float32)


def _smaller(layers: Sequence[Layer], image: Shape) -> tuple[Shape, int]:
    """The smallest images with which no map becomes too small, and the number of them; of sequences short ones."""
    if layers[0].op.kind == OF_SYMBOLS:
        return (*image[:2], min(image[2], PLACES)), SAMPLES
    sides = [2**power for power in range(2, max(image[1:]).bit_length())]
    fixed = any(layer.op.kind == "upsample" for layer in layers)
    tried = [] if fixed else [(image[0], *(min(side, whole) for whole in image[1:])) for side in sides]
    chosen = next((small for small in tried if _pixels(layers, small) >= LEAST_PIXELS), image)
    return chosen, max(SAMPLES, -(-VALUES // _pixels(layers, chosen)))


def _pixels(layers: Sequence[Layer], image: Shape) -> int:
    """Pixels of the smallest map; 0 where windows do not fit."""
    maps = [shape[1:] for shape in shapes(layers, image).values() if len(shape) == 3]
    return min(prod(max(side, 0) for side in sides) for sides in maps)


@torch.no_grad()
def _vary(module: Layers) -> None:
    """Add numbers between 0 and 1/2 to every tensor of equal elements: scales, offsets, running statistics.

    Weights that begin small are enlarged: scores of attention near 0 would hide whatever is wrong with them.
    """
    for part in module.modules():
        if isinstance(part, GaussianLinear):
            part.weight.mul_(1 / (part.deviation * part.in_features**0.5))
    generator = torch.Generator().manual_seed(1)
    for value in module.state_dict().values():
        if value.is_floating_point() and bool((value == value.flatten()[0]).all()):
            value.add_((torch.rand(value.shape, generator=generator) / 2).to(value))


def _other_parameters(module: Layers, expected: dict[str, Shape]) -> str:
    """The first layer that has others than expected, or whose shape differs; empty if there is none."""
    found = {name: tuple(value.shape) for name, value in module.state_dict().items() if value.is_floating_point()}
    names = [name for name in {**expected, **found} if found.get(name) != expected.get(name)]
    return names[0].rpartition(".")[0] if names else ""


def _deviations(copy: Layers, layers: Sequence[Layer], x: Singles, precision: Precision) -> Iterator[Worst]:
    """Deviation / bound in the network's own precision, and in fp64 in training and in evaluation."""
    kept = deepcopy({name: value for name, value in copy.state_dict().items() if "running" in name})
    logits = _own_outputs(copy, x) if isinstance(copy, Network) else None
    copy.load_state_dict(kept, strict=False)
    exact = _in_fp64(copy)
    values, images = _values(exact), x.astype(np.float64)
    for training, form in ((True, "training"), (False, "evaluation")):
        expected, left = forward(layers, values, images, training)
        outputs = _outputs_of_layers(exact.train(training), layers, images)
        statistics = _values(exact)
        for name, found in [*outputs, *((name, statistics[name]) for name in left)]:
            yield _difference(found, (expected | left)[name]) / EXACT, f"{name} in {form}, fp64"
        values = {**values, **left}
        if logits is not None and training:
            wanted = expected[layers[-1].name]
    if logits is not None:
        rounded = _outputs_of_layers(exact.train(), layers, images, change=_rounding(precision))[-1][1]
        bound = MORE * _share(rounded, wanted)
        yield _share(logits, wanted) / bound, f"{layers[-1].name} in training, {precision.name}"


def _rounding(precision: Precision) -> float:
    """Size of the changes of a layer's outputs that stand for rounding, / their root mean square."""
    of_inputs = 2.0**-precision.arithmetic.significand
    return max(fp32_tolerance(INNER), of_inputs * (QUANTISED if precision.quantised else 1))


def _own_outputs(copy: Network, x: Singles) -> Doubles:
    """Outputs in training mode, in the precision and by the kernels of the network."""
    images = torch.from_numpy(x).to(_device(copy)).to(memory_format=torch.channels_last)
    outputs: Any = copy.train()(images).detach().double().cpu().numpy()
    return outputs


def _in_fp64(copy: Layers) -> Layers:
    """The same network in fp64, layer by layer, each computed by its own class."""
    for part in copy.modules():
        vars(part).pop("forward", None)
    copy.steps = list(copy.as_planned)
    return copy.double()


@torch.no_grad()
def _outputs_of_layers(
    module: Layers, layers: Sequence[Layer], images: Doubles, change: float = 0.0
) -> list[tuple[str, Doubles]]:
    """Outputs of the layers that are sub-modules, in their order; with random changes of them, if asked for."""
    found: dict[str, list[Doubles]] = {}
    generator = torch.Generator().manual_seed(1)

    def keep(name: str, output: Tensor) -> Tensor | None:
        if change:
            noise = torch.randn(output.shape, generator=generator, dtype=output.dtype).to(output.device)
            output = output + change * output.square().mean().sqrt() * noise
        found.setdefault(name, []).append(output.cpu().numpy().copy())
        return output if change else None

    hooks = [
        part.register_forward_hook(lambda part, inputs, output, name=name: keep(name, output))
        for name, part in module.named_children()
    ]
    module.begin(len(layers), torch.from_numpy(images).to(_device(module)))
    for hook in hooks:
        hook.remove()
    computing = [layer for layer in layers if layer.op.kind in COMPARED]
    names = [(layer.name, layer.shares or layer.name) for layer in computing]
    return [(name, found[part].pop(0) if found.get(part) else np.zeros(())) for name, part in names]


def _device(module: torch.nn.Module) -> torch.device:
    return next(module.parameters()).device


def _difference(found: Doubles, expected: Doubles) -> float:
    """Largest difference / root mean square; the largest number of other shapes."""
    if found.shape != expected.shape:
        return LARGEST
    return float(np.abs(found - expected).max()) / _size(expected)


def _share(found: Doubles, expected: Doubles) -> float:
    """Root mean square of the difference / that of what is expected; the largest number of other shapes."""
    return _size(found - expected) / _size(expected) if found.shape == expected.shape else LARGEST


def _size(values: Doubles) -> float:
    """Root mean square, above 0."""
    return max(float(np.sqrt(np.square(values).mean())), float(np.finfo(np.float32).tiny))
