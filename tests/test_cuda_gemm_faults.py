"""Faults planted into GEMM for GPUs: each is detected under at least one of the schedules on the host."""

import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import cuda_on_host
import pytest
from gemm_on_host import COLUMNS, LANES, PAIRED, PING_PONG, ROWS, SHARING, WARPS, Case, Product
from launch import ROOT
from sampled_parameters import one_in

HEADERS = ROOT / "kernels" / "cuda"
PLAIN = Case("bf16", WARPS, 130, 70, 5 * 64 + 2, unit=4)
LINED = Case("fp32", LANES, 132, 72, 3 * 32 + 4)  # results are staged in its last line
TRANSPOSED = replace(LINED, layouts=(COLUMNS, COLUMNS))
SHARES = Case("bf16", SHARING, 301, 73, 5 * 64 + 3, processors=2)
PAIRS = replace(SHARES, tile=PAIRED, processors=4)
TRANSPOSED_PAIRS = replace(PAIRS, tile=replace(PAIRED, columns=128), layouts=(COLUMNS, COLUMNS))
ALTERNATING = replace(SHARES, tile=PING_PONG)
SHORT_ALTERNATING = replace(ALTERNATING, steps=60)
BYTES = Case("int8", WARPS, 130, 70, 300, layouts=(ROWS, COLUMNS))
IN_PARTS = replace(SHARES, tile=replace(SHARING, parts=2))
LINED_IN_PARTS = replace(LINED, tile=replace(LANES, parts=3))


class Fault(NamedTuple):
    """The name of a fault, its file, and the texts that are replaced by others."""

    name: str
    file: str
    changes: dict[str, str]


PLANTED_IN = {
    PLAIN: [
        Fault("rows of a fragment", "mma.cuh", {"row + 8 * rows + lane % 8": "row + 8 * half + lane % 8"}),
        Fault("half of a fragment", "mma.cuh", {"right[j / 2][j % 2 * 2 + 1]": "right[j / 2][j % 2 * 2]"}),
        Fault(
            "tensor cores ignore the swizzle",
            "mma.cuh",
            {"lane % 8, 2 * step + half": "0, 2 * step + half"},
        ),
        Fault("no barrier before a stage is used", "pipeline.cuh", {"sync_block();  // all copied": "// all copied"}),
        Fault(
            "copies not committed",
            "pipeline.cuh",
            {"next * STEPS);\n            commit_copies();": "next * STEPS);"},
        ),
        Fault("copies waited for too late", "pipeline.cuh", {"copies<STAGES - 2>": "copies<STAGES - 1>"}),
        Fault(
            "a step too many is read",
            "matrix_operand.cuh",
            {"matrix.columns - step -": "matrix.columns - step + 2 -"},
        ),
        Fault(
            "a row too many is written", "epilogue.cuh", {"return row < epilogue.rows": "return row <= epilogue.rows"}
        ),
        Fault("a column too many is written", "epilogue.cuh", {"if (column < epilogue": "if (column <= epilogue"}),
        Fault("a tile is left out", "rasterization.cuh", {"% of_band % rows": "% of_band % rows / 2 * 2"}),
    ],
    LINED: [
        Fault("a lane ignores the swizzle", "simt.cuh", {"(swapped ^ (line % VECTORS * VECTOR))": "swapped"}),
        Fault(
            "no barrier before results",
            "pipeline.cuh",
            {"copies<0>();\n        sync_block();": "copies<0>();"},
        ),
        Fault(
            "no barrier of a warp",
            "epilogue.cuh",
            {"stage<INDEX>(buffer);\n            sync_warp();": "stage<INDEX>(buffer);"},
        ),
        Fault("copies not waited for", "pipeline.cuh", {"            wait_for_copies<STAGES - 2>();\n": ""}),
        Fault("a line too many is read", "matrix_operand.cuh", {"item * APART < left ?": "item * APART <= left ?"}),
    ],
    TRANSPOSED: [
        Fault("columns of a lane", "simt.cuh", {"(rows % VECTORS ^ k)": "(rows % VECTORS)"}),
        Fault(
            "a row too many is read",
            "matrix_operand.cuh",
            {"matrix.columns - column;": "matrix.columns - column + 4;"},
        ),
    ],
    replace(LINED, given=("bias",)): [
        Fault("the bias of other columns", "epilogue.cuh", {"finish(sums, column,": "finish(sums, column & ~7,"}),
    ],
    replace(PLAIN, relu=True, broken="A"): [
        Fault(
            "NaN is lost",
            "epilogue.cuh",
            {"value < 0 ? Sum(0) : value": "!(value > 0) ? Sum(0) : value"},
        ),
    ],
    SHARES: [
        Fault("the descriptor of another step", "wgmma.cuh", {"step * (LINE / 4)": "step * VECTOR"}),
        Fault("a descriptor without swizzle", "wgmma.cuh", {"swizzled = 1;": "swizzled = 0;"}),
        Fault("the last line is left out", "gemm.cu", {"(steps + Width<USE_TYPE>::ELEMENTS - 1) /": "steps /"}),
        Fault(
            "a stage is not waited for",
            "warp_specialized.cuh",
            {"wait_for_phase(buffers.full": "if (false) wait_for_phase(buffers.full"},
        ),
        Fault(
            "the producer does not wait",
            "gemm.cu",
            {"wait_for_phase(buffers.empty(ring.stage), ring.parity);\n            arrive": "arrive"},
        ),
        Fault("the producer waits forever", "gemm.cu", {"RingPosition ring = {0, 1};": "RingPosition ring = {0, 0};"}),
        Fault(
            "a stage is given back too early",
            "warp_specialized.cuh",
            {
                "wgmma_wait<1>();\n            if (line > 0) release(buffers.empty(before));":
                    "if (line > 0) release(buffers.empty(before));\n            wgmma_wait<1>();"
            },
        ),
        Fault(
            "products are not waited for",
            "warp_specialized.cuh",
            {"on_issued();\n        wgmma_wait<0>();": "on_issued();"},
        ),
        Fault("fewer bytes are expected", "gemm.cu", {"(full, Buffers::STAGE)": "(full, Buffers::STAGE / 2)"}),
        Fault(
            "unavailable registers", "gemm.cu", {"decrease_registers<Registers<40>": "decrease_registers<Registers<56>"}
        ),
        Fault(
            "registers by part of a warpgroup",
            "gemm.cu",
            {"        decrease_registers": "        if (threadIdx.x < 32) decrease_registers"},
        ),
    ],
    PAIRS: [
        Fault(
            "a share is kept",
            "gemm.cu",
            {"tma_load_multicast((1 << USE_CLUSTER) - 1,": "tma_load_multicast(1 << rank,"},
        ),
        Fault(
            "only its own block is freed", "warp_specialized.cuh", {"arrive_remote(empty, thread);": "arrive(empty);"}
        ),
        Fault("barriers are not waited for", "gemm.cu", {"    sync_cluster();\n    else": "    ;\n    else"}),
        Fault("a block ends without notice", "gemm.cu", {"USE_CLUSTER > 1 && stage < USE": "false && stage < USE"}),
    ],
    TRANSPOSED_PAIRS: [
        Fault("the block in an address is not masked", "wgmma.cuh", {"address & 0x3ffff": "address"}),
    ],
    ALTERNATING: [
        Fault("consumers do not alternate", "warp_specialized.cuh", {"if (PING_PONG) wait": "if (false) wait"}),
    ],
    SHORT_ALTERNATING: [
        Fault(
            "a late warp misses its signal",
            "warp_specialized.cuh",
            {
                "WARPGROUP / 32);": "1);",
                "thread % 32 == 0) arrive": "thread == 0) arrive",
            },
        ),
    ],
    IN_PARTS: [
        Fault("steps are added twice", "gemm.cu", {"left < p.raster.steps_of_part ?": "true ?"}),
    ],
    LINED_IN_PARTS: [
        Fault(
            "a part is added twice",
            "split_k.cuh",
            {"i < count; ++i, part": "i <= count; ++i, part -= (i == 1) * apart, part"},
        ),
    ],
    replace(PLAIN, type="int8", unit=2): [
        Fault("a byte of two", "shared_tile.cuh", {"PIECE < 4 ? 1 :": "PIECE < 1 ? 1 :"}),
    ],
    BYTES: [
        Fault("a square is read before it is written", "transpose.cuh", {"        sync_block();\n": ""}),
        Fault("a byte of another line", "transpose.cuh", {"<< (BITS * i % 32);": "<< (BITS * (EACH - 1 - i) % 32);"}),
    ],
}
PLANTED = [(case, fault) for case, faults in PLANTED_IN.items() for fault in faults]
OTHERWISE = {"a part is added twice": "reduce_split_k", **{fault.name: "transpose" for fault in PLANTED_IN[BYTES]}}


def planted(fault: Fault, folder: Path) -> Path:
    """The source with all files that it includes, and the fault in it."""
    for path in [*HEADERS.glob("*.cuh"), *(ROOT / "kernels/gemm/cuda").glob("*.cu*")]:
        shutil.copy(path, folder)
    text = (folder / fault.file).read_text()
    for old, new in fault.changes.items():
        assert text.count(old) == 1, f"{fault.name}: {old} is in {text.count(old)} places of {fault.file}"
        text = text.replace(old, new)
    (folder / fault.file).write_text(text)
    return folder / "gemm.cu"


@pytest.fixture(scope="module")
def sources(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The source with each fault to be tested; all are built in parallel."""

    def build(case: Case, fault: Fault) -> Path:
        source = planted(fault, tmp_path_factory.mktemp("fault"))
        for launch in Product(case).launches:
            own = launch.program.name == OTHERWISE.get(fault.name, "gemm")
            cuda_on_host.built(launch.program, source if own else launch.program.path)
        return source

    own = (item for item in request.session.items if item.path == request.path and hasattr(item, "callspec"))
    given = [item.callspec.params for item in own]
    cuda_on_host.build_all([])
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        yield {each["fault"].name: pool.submit(build, each["case"], each["fault"]) for each in given}


@pytest.mark.parametrize(
    ("case", "fault"), one_in(16, PLANTED), ids=lambda given: given.name if isinstance(given, Fault) else ""
)
def test_a_planted_fault_is_detected(case: Case, fault: Fault, sources: dict[str, Any]) -> None:
    product, source = Product(case), sources[fault.name].result()
    with pytest.raises(AssertionError):
        run_all(product, OTHERWISE.get(fault.name, "gemm"), source)


@pytest.mark.exhaustive
def test_the_same_products_are_right_without_faults() -> None:
    products = [Product(case) for case in PLANTED_IN]
    cuda_on_host.build_all(launch.program for product in products for launch in product.launches)
    for product in products:
        run_all(product)


def run_all(product: Product, *changed: Any) -> None:
    """Under all schedules in sequence, until one fails."""
    for schedule in cuda_on_host.SCHEDULES:
        product.run(schedule, *changed)
