"""What a layer's output is like, channel by channel: a block that is inserted behind it begins with that."""

import torch
from torch import Tensor

from hpcai.models.module import Network
from hpcai.networks.graph import Graph
from hpcai.search.weight_inheritance import State, Statistics


def statistics(graph: Graph, state: State, layer: str, images: Tensor) -> Statistics:
    """Mean and variance of the channels of a layer's map, float[C] each, over images float[N, C, H, W].

    The network is in evaluation mode, on the images' device. The same on every rank that gives the same.
    """
    part = upstream(graph, layer)
    network = Network(part).to_empty(device=images.device).to(images.dtype)
    network.load_state_dict({name: tensor for name, tensor in state.items() if name.split(".")[0] in part.shapes})
    with torch.no_grad():
        values = network.eval()(images).transpose(0, 1).flatten(1)
    return {layer: (values.mean(1).cpu(), values.var(1, unbiased=False).cpu())}


def upstream(graph: Graph, layer: str) -> Graph:
    """The layers that a layer's output depends on, and itself."""
    wanted = {layer}
    for above in reversed(graph.layers):
        if above.name in wanted:
            wanted.update(above.inputs)
    return Graph(tuple(above for above in graph.layers if above.name in wanted))
