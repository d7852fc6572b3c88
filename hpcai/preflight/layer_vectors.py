"""Gradients and statistics of a network's layers, each as one vector, to be compared layer by layer.

The outputs of some layers are sections side by side, which the next layer reads apart: queries, keys and values, or
both halves of SwiGLU. Each section is a vector of its own: a lost gradient of the keys is small beside that of the
values.
"""

from typing import Any

import torch
from torch import Tensor

from hpcai.models.module import Layers
from hpcai.networks.sequences import BY_SECTION

Vectors = dict[str, Tensor]


def layer_vectors(module: Layers) -> tuple[Vectors, Vectors]:
    """Gradients and statistics after a pass, by the names of layers and of their sections."""
    gradients: dict[str, list[Any]] = {}
    statistics: dict[str, list[Any]] = {}
    sections = _sections(module)
    for name, part in module.named_modules():
        of_layer = [parameter.grad for parameter in part.parameters(recurse=False)]
        gradients |= _apart(name, of_layer, sections[name]) if name in sections else {name: of_layer}
        statistics[name] = [buffer for buffer in part.buffers(recurse=False) if buffer.is_floating_point()]
    return _concatenated(gradients), _concatenated(statistics)


def _sections(module: Layers) -> dict[str, int]:
    """How many sections the layers of a network have of which the next layer reads sections."""
    readers = (step.layer for step in module.plan)
    return {layer.inputs[0]: layer.op.sections for layer in readers if isinstance(layer.op, BY_SECTION)}


def _apart(name: str, tensors: list[Any], sections: int) -> dict[str, list[Any]]:
    """Tensors of a layer, whose first dimension are its outputs, by section."""
    parts = zip(*(each.chunk(sections) for each in tensors), strict=True)
    return {f"{name}, section {number} of {sections}": [*part] for number, part in enumerate(parts, 1)}


def _concatenated(parts: dict[str, list[Any]]) -> Vectors:
    return {name: torch.cat([each.flatten() for each in tensors]) for name, tensors in parts.items() if tensors}
