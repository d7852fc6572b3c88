"""Operations that a kernel at least computes, where counts by rule `model` are nominal.

Taps that meet padding may be skipped, as oneDNN does; Winograd's F(4x4, 3x3) multiplies a quarter as often, which
vendors' libraries may use on some layers (Lavin and Gray, 2016, arXiv:1509.09308).
"""

from hpcai.kernels import conv2d
from hpcai.kernels.layers import SPECS, MeasuredShape, spec_of
from hpcai.networks.graph import Graph
from hpcai.networks.layers import Conv
from hpcai.opcount import walk
from hpcai.opcount.products import shape_of
from hpcai.opcount.rules import model

IMAGE = 3  # dimensions of a sample: channels, height and width
TRANSFORMED = 4  # factor of operations saved by Winograd's F(4x4, 3x3)


def nominal_share(layer: MeasuredShape, device: str, vendor: bool) -> float:
    """Nominal / least operations of a product of a layer, the same in all directions; vendor: whether by its library.

    device: as torch names its type.
    """
    if not isinstance(layer, conv2d.Shape):
        return 1.0
    saved = TRANSFORMED if vendor and conv2d.vendor_may_transform(layer, device) else 1
    return saved * SPECS[spec_of(layer).name].operations(layer) / conv2d.needed_operations(layer)


def network_share(graph: Graph, device: str, vendor: bool) -> float:
    """Nominal / least operations of a training sample; vendor: whether its library may compute."""
    nominal, least = 0, 0.0
    for shaped in walk(graph):
        operations, share, op = sum(model(shaped)), 1.0, shaped.layer.op
        if isinstance(op, Conv) and len(shaped.source) == IMAGE:
            share = nominal_share(shape_of(op, shaped.source, 1), device, vendor)
        nominal, least = nominal + operations, least + operations / share
    return nominal / least if least else 1.0
