"""Faults planted into the source of attention: each exceeds the bound on an element, in the passes that it is in."""

from pathlib import Path

import pytest
from altered_kernels import altered
from sampled_parameters import slow

from hpcai.kernels.attention import PASSES, Shape, reference
from hpcai.kernels.attention.cpu.layout import KEYS
from hpcai.kernels.residual import worst
from hpcai.kernels.spec import FORWARD, INPUT_GRADIENT
from hpcai.kernels.verify import drawn

SHAPE = Shape(1, 2, KEYS + 40)
# Text, what replaces it, and the passes that the fault is in; what the forward pass leaves wrong is wrong backward.
BOTH, BACKWARD = PASSES, (INPUT_GRADIENT,)
FAULTS = {
    "none": ("Causal", "causal", ()),
    "mask off by one": ("visible = min(tile.keys, tile.first + row + 1 - tile.key)",
                        "visible = min(tile.keys, tile.first + row + 2 - tile.key)", BOTH),
    "mask off by one in the backward pass": ("visible, at = min(tile.keys, tile.first + row + 1 - tile.key)",
                                             "visible, at = min(tile.keys, tile.first + row + 2 - tile.key)", BACKWARD),
    "running sum not rescaled": ("builder.fadd(builder.fmul(builder.load(total), factor), sum_)",
                                 "builder.fadd(builder.load(total), sum_)", BOTH),
    "output not rescaled": ("if tile.key > 0 and factor != one:", "if tile.key > KEYS and factor != one:", BOTH),
    "a tile of keys skipped": ("for key in range(0, first + count, KEYS):",
                               "for key in range(0, min(KEYS, first + count), KEYS):", BOTH),
    "a tile of keys skipped in the backward pass": ("for first in range(key, layout.places, QUERIES):",
                                                    "for first in range(key, layout.places - QUERIES, QUERIES):",
                                                    BACKWARD),
    "scale left out": ("np.float32(shape.scale * LOG2_E)", "np.float32(LOG2_E)", BOTH),
    "scale left out of gradients": ("scales = workspace(threads * plan.nbytes), (np.float32(shape.scale),",
                                    "scales = workspace(threads * plan.nbytes), (np.float32(1),", BACKWARD),
    "mean of gradients left out": ("builder.fsub(code.load(of_gradients, at), mean)",
                                   "code.load(of_gradients, at)", BACKWARD),
    "last features left out": ("for column in range(0, layout.features, width):",
                               "for column in range(0, layout.features - width, width):", BOTH),
}


@pytest.mark.parametrize("fault", slow(["running sum not rescaled"], FAULTS))
def test_fault_in_attention_is_detected(fault: str, tmp_path: Path) -> None:
    right, wrong, passes = FAULTS[fault]
    kernel = altered("attention", tmp_path, right, wrong)
    data = drawn(SHAPE, "fp32", 1)
    for direction in (FORWARD, INPUT_GRADIENT):
        (found,) = kernel.prepare(SHAPE, direction, data, "cpu", 1)
        found.call()
        assert (worst(reference.compared(found.result(), data, SHAPE, direction)) > 1.0) == (direction in passes)
