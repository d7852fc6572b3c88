"""Known answers of scores and of operation counts: computed by hand or published; a run is refused without them.

Operations of ResNet-50 at 224 x 224: docs/METRICS.md; those of ResNet-18 follow from its published layers. A run that
verifies itself by the same formulas would not find an error in them.
"""

from collections.abc import Iterator
from math import exp, isclose
from typing import Any

from hpcai.errors import HpcaiError
from hpcai.formulas import aiperf, roofline, score
from hpcai.kernels import conv2d, gemm, triad
from hpcai.networks import build
from hpcai.opcount import count

IMAGE = (224, 224)
FORWARD = {"model": 8_178_368_512, "hpcai500": 8_203_465_728}  # of an image by resnet50 v1.5, 1 multiply-add = 2
AIPERF = 23_053_458_315  # training operations of an image by resnet50 v1
RESNET18 = 10_648_412_160  # training operations of an image, rule `model`


def check() -> None:
    """HpcaiError if a formula gives another answer."""
    for name, found, expected in (*_of_scores(), *_of_networks(), *_of_kernels()):
        if not isclose(found, expected, rel_tol=1e-12):
            raise HpcaiError(f"{name} gives {found}; allowed: {expected}, its known answer")


def _of_scores() -> Iterator[tuple[str, float, float]]:
    yield "FLOPS of 6 operations in 2 s", score.flops(6, 2.0), 3.0
    yield "Valid FLOPS of 100 at 0.9 of the target, exponent 5", score.valid_flops(100.0, 0.9, 5.0), 59.049
    yield "disagreement of 4 models, 10 samples, 30 agreeing pairs", score.disagreement(30, 4, 10), 0.5
    yield "efficiency of 30 on 8 ranks against 5 on 1", score.efficiency(30.0, 8, 5.0, 1), 0.75
    yield "OPS of 10 operations in 4 s", aiperf.ops(10, 4.0), 2.5
    yield "regulated score of error 1/e at 5", aiperf.regulated(exp(-1.0), 5.0), 5.0
    yield "error of accuracy 0.75", aiperf.error(0.75, 1000), 0.25
    yield "bytes of an all-reduce of 8 by 4 ranks", roofline.moved_in_all_reduce(8.0, 4), 12.0


def _of_networks() -> Iterator[tuple[str, float, float]]:
    fifty, first = (build("resnet50", IMAGE, 3, 1000, variant) for variant in ("v1.5", "v1"))
    for rule, expected in FORWARD.items():
        yield f"operations of resnet50 v1.5, rule {rule}", count(fifty, rule).forward, expected
    yield "operations of resnet50 v1, rule aiperf", count(first, "aiperf").total, AIPERF
    yield "operations of resnet18, rule model", count(build("resnet18", IMAGE, 3, 1000), "model").total, RESNET18


def _of_kernels() -> Iterator[tuple[str, float, float]]:
    convolution: Any = conv2d.Shape(2, 3, 8, 8, 5, (3, 3), (1, 1), (1, 1))
    yield "operations of a product of 2 x 3 by 3 x 5", gemm.SPEC.operations(gemm.Shape(2, 3, 5)), 60
    yield "operations of a convolution", conv2d.SPEC.operations(convolution), 2 * 2 * 5 * 8 * 8 * 3 * 9
    yield "operations of a triad of 10 numbers", triad.SPEC.operations(triad.Shape(10)), 20
    yield "bytes of a triad of 10 numbers", triad.SPEC.nbytes(triad.Shape(10), "", "fp64"), 240
