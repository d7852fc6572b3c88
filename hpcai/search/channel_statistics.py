"""Channel statistics of a layer's output, with which the batch norm of a block inserted behind it is initialised."""

import torch
from torch import Tensor

from hpcai.models.module import Network
from hpcai.networks.graph import Graph
from hpcai.search.weight_inheritance import Statistics
from hpcai.search.weights_file import State


def statistics(graph: Graph, state: State, layer: str, images: Tensor) -> Statistics:
    """Mean and variance of the channels of a layer's output, float[C] each, over images float[N, C, H, W].

    The network is in evaluation mode, on the images' device. The same on every rank that passes the same.
    """
    part = upstream(graph, layer)
    network = Network(part).to_empty(device=images.device).to(images.dtype)
    network.load_state_dict({name: tensor for name, tensor in state.items() if name.split(".")[0] in part.shapes})
    with torch.no_grad():
        values = network.eval()(images).transpose(0, 1).flatten(1)
    return {layer: (values.mean(1).cpu(), values.var(1, unbiased=False).cpu())}


def upstream(graph: Graph, layer: str) -> Graph:
    """The network up to a layer: the layers that its output depends on, and itself."""
    kept = {layer}
    for above in reversed(graph.layers):
        if above.name in kept:
            kept.update(above.inputs)
    return Graph(tuple(above for above in graph.layers if above.name in kept))
