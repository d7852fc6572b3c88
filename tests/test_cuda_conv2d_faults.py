"""Faults planted into convolutions for GPUs: each is detected under at least one of the schedules."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

import cuda_on_host
import pytest
from conv2d_on_host import Case, Convolved, run_all
from sampled_parameters import one_in
from test_cuda_conv2d import GROUPED, HALVES, LANES, LARGE, PADDED, PAIRED, PLAIN, POINTS, SHARING, STEM, WARPS

from hpcai.kernels.conv2d.cuda import geometry, padding
from hpcai.kernels.spec import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT


class Fault(NamedTuple):
    """The name of a fault, the text that is replaced by another, which of its occurrences, and in which kernel."""

    name: str
    right: str
    wrong: str
    place: int = 0
    kernel: str = "conv2d"


SEES = Case("bf16", FORWARD, WARPS, GROUPED)
SEES_WORDS = Case("fp32", FORWARD, LANES, STEM)
SPREADS = Case("fp32", INPUT_GRADIENT, LANES, POINTS)
WEIGHS = Case("bf16", WEIGHT_GRADIENT, WARPS, PADDED)
SENDS = Case("bf16", FORWARD, SHARING, LARGE, processors=2)
SENDS_BACK = Case("bf16", INPUT_GRADIENT, SHARING, replace(PLAIN, filters=128))
PAIRS = Case("bf16", FORWARD, PAIRED, replace(LARGE, channels=24))
FINISHES = replace(SEES, given=("bias",))
IN_PARTS = Case("bf16", WEIGHT_GRADIENT, replace(SHARING, parts=3), LARGE)
IN_PARTS_OF_GROUPS = Case("fp32", WEIGHT_GRADIENT, replace(LANES, parts=2), HALVES)

PLANTED: dict[Case, list[Fault]] = {
    SEES: [
        Fault(
            "taps in another order",
            "down = r * geometry.tap_down, across = s *",
            "down = s * geometry.tap_down, across = r *",
        ),
        Fault(
            "a window begins elsewhere",
            "geometry.step_down + geometry.from_down",
            "geometry.step_down + geometry.from_down + 1",
        ),
        Fault("a pixel of the neighbouring row", "& 0x80008000) == 0", "& 0x80000000) == 0"),
        Fault("lines of another lane", "LINES + lane / VECTORS", "LINES + lane % LINES"),
        Fault("another group's image", "blockIdx.y * p.group_of_image", "0"),
        Fault("another group's weights", "+ group * p.group_of_other", "+ 0 * group"),
        Fault("padding is not zero", "if (i < left) found.values", "found.values", kernel="widen"),
    ],
    SEES_WORDS: [Fault("one line is not filled", "p.vectors)", "p.vectors - 9)", kernel="widen")],
    SPREADS: [
        Fault("all phases are the first one", "p.phases[blockIdx.z]", "p.phases[0]", place=1),
        Fault("the first pixel of a phase is ignored", "return phase.first + pixel.image", "return pixel.image"),
    ],
    WEIGHS: [
        Fault("an image too many", "quotient(number, geometry.of_image);", "0;"),
        Fault("taps of the first column", "(geometry, image, column + group", "(geometry, image, group"),
    ],
    SENDS: [
        Fault("writes are not published", "if (COPIED) fence_async_proxy();", ""),
        Fault("published before the copies are complete", "wait_for_copies<BEHIND>();", ""),
        Fault(
            "a stage is loaded while it is used",
            "wait_for_phase(buffers.empty(ring.stage), ring.parity);\n                work",
            "work",
        ),
        Fault("the last stages are kept", "asked < BEHIND ? asked : BEHIND; left > 0", "0; left > 0"),
        Fault(
            "a stage is given back too early",
            "wgmma_wait<1>();\n            if (line > 0) release(buffers.empty(before));",
            "if (line > 0) release(buffers.empty(before));\n            wgmma_wait<1>();",
        ),
        Fault("the sending thread is not counted", "WARPGROUP + USE_TMA", "WARPGROUP"),
        Fault("another stage's place", "buffers.b(stage); }\n#endif", "buffers.b(0); }\n#endif"),
    ],
    SENDS_BACK: [
        Fault("weights of the first tap", "weight.tap + first", "first"),
        Fault("filters of the first line", "p.other.lines + weight.filter", "p.other.lines"),
    ],
    PAIRS: [
        Fault("all shares have the place of the first", "tile + share * SHARE * LINE", "tile"),
        Fault("a block ends too early", "CLUSTER > 1 && stage < STAGES", "false && stage < STAGES"),
        Fault("both blocks have the same rows", "(t.down * CLUSTER + rank)", "(t.down * CLUSTER)"),
    ],
    FINISHES: [Fault("another group's bias", "epilogue.bias += group * epilogue.columns", "epilogue.bias += group")],
    IN_PARTS: [
        Fault("all parts are the first one", "return t.part * phase.raster.steps_of_part", "return 0"),
    ],
    IN_PARTS_OF_GROUPS: [
        Fault(
            "another group's parts", "(split_k.parts) + blockIdx.y * group", "(split_k.parts)", kernel="reduce_split_k"
        ),
    ],
}
FAULTS = [(case, fault) for case, faults in PLANTED.items() for fault in faults]


@pytest.fixture(scope="module")
def libraries(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The kernel with each fault to be tested; all are built in parallel."""

    def build(case: Case, fault: Fault) -> Any:
        program = next(each.program for each in Convolved(case).launches if each.program.name == fault.kernel)
        return cuda_on_host.planted(program, tmp_path_factory.mktemp("fault"), fault.right, fault.wrong, fault.place)

    items = (item for item in request.session.items if item.path == request.path and hasattr(item, "callspec"))
    given = [item.callspec.params for item in items if "fault" in item.callspec.params]
    cuda_on_host.build_all(launch.program for each in given for launch in Convolved(each["case"]).launches)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        yield {each["fault"].name: pool.submit(build, each["case"], each["fault"]) for each in given}


@pytest.mark.parametrize(
    ("case", "fault"), one_in(16, FAULTS), ids=lambda given: given.name if isinstance(given, Fault) else ""
)
def test_a_planted_fault_is_detected(case: Case, fault: Fault, libraries: dict[str, Any]) -> None:
    layer, library = Convolved(case), libraries[fault.name].result()
    with pytest.raises(AssertionError) as seen:
        run_all(layer, {fault.kernel: library})
    print(fault.name, seen.value)


def with_factor_one_less(divisor: geometry.Divisor) -> geometry.Divisor:
    return divisor._replace(factor=max(0, divisor.factor - 1))


def with_larger_shift(divisor: geometry.Divisor) -> geometry.Divisor:
    return divisor._replace(shift=divisor.shift + 1)


@pytest.mark.parametrize("wrong", [with_factor_one_less, with_larger_shift])
def test_a_wrong_divisor_is_detected(wrong: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    layer, right = Convolved(SPREADS if wrong is with_larger_shift else SEES_WORDS), geometry.divisor
    run_all(layer)
    for module in (geometry, padding):
        monkeypatch.setattr(module, "divisor", lambda number: wrong(right(number)))
    with pytest.raises(AssertionError):
        run_all(layer)


@pytest.mark.slow
def test_the_same_layers_are_right_without_faults() -> None:
    layers = [Convolved(case) for case in PLANTED]
    cuda_on_host.build_all(launch.program for layer in layers for launch in layer.launches)
    for layer in layers:
        run_all(layer)
