"""All GEMM kernels that may be chosen compile for every architecture, within the available registers."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest
from cuda_sources import ARCHITECTURES, device_target, faults
from sampled_parameters import fast, slow_one_in

from hpcai.kernels.cuda.architecture import PTX, Target
from hpcai.kernels.cuda.compiler import Compiled, compile_all
from hpcai.kernels.cuda.program import Program
from hpcai.kernels.cuda.tile_candidates import candidates, engines
from hpcai.kernels.cuda.tiling import BY_COLUMNS, BY_ROWS, KINDS, MMA, SIMT, WGMMA, Operand, Tile
from hpcai.kernels.gemm import cupy_gpu
from hpcai.kernels.gemm.cuda.launches import SOURCE, definitions, k_major_copy, needs_transpose

CHOICES = [(type, engine) for type in KINDS for engine in (SIMT, MMA, WGMMA)]
LAYOUTS = [(a, b) for a in (BY_ROWS, BY_COLUMNS) for b in (BY_ROWS, BY_COLUMNS)]
WORKERS = 2


def program(type: str, tile: Tile, layouts: tuple[int, int], piece: int = 16, whole: bool = True) -> Program:
    """For operands whose lines begin at multiples of `piece` bytes; `whole`: steps are not divided into parts."""
    kind = KINDS[type]
    operands = [Operand(piece, 16, 16, 16, layout) for layout in layouts]
    a, b = (k_major_copy(kind, each) if needs_transpose(kind, tile.engine, each) else each for each in operands)
    return Program(SOURCE, "gemm", definitions(kind, a, b, tile, kind.name if whole else kind.sums))


def choices(type: str, engine: str, target: Target) -> Iterator[Program]:
    """Each tile in each layout; the largest tile also in parts, and the largest for the smallest pieces."""
    tiles, piece = candidates(type, engine, target), KINDS[type].operand_bytes
    for layouts in LAYOUTS:
        yield from (program(type, tile, layouts) for tile in tiles)
        yield program(type, largest(tiles), layouts, whole=False)
        yield program(type, largest(candidates(type, engine, target, piece)), layouts, piece)


def largest(tiles: Iterable[Tile]) -> Tile:
    return max(tiles, key=lambda tile: tile.rows * tile.columns)


def assert_clean(programs: list[Program], target: Target) -> list[Compiled]:
    made = compile_all(programs, target, WORKERS)
    for each, compiled in zip(programs, made, strict=True):
        assert not faults(compiled), f"{each} for {target.name}"
        assert not [name for name, usage in compiled.usage.items() if usage.stack], f"{each} uses local memory"
        assert compiled.image.startswith(b"\x7fELF") and "gemm" in compiled.usage
    return made


@pytest.mark.slow
@pytest.mark.parametrize("architecture", fast(["sm_90a"], ARCHITECTURES))
def test_each_type_and_engine_compiles_without_local_memory(architecture: str) -> None:
    target = device_target(architecture)
    programs = cupy_gpu.programs(target)
    assert_clean(programs, target)
    found = {(dict(each.definitions)["USE_TYPE"], engine) for each in programs for engine in (SIMT, MMA, WGMMA)
             if f"USE_{engine}" in dict(each.definitions)}
    assert found == {(KINDS[type].name, engine) for type in KINDS for engine in engines(type, target, boxes=True)}


def test_code_for_hopper_multiplies_by_warpgroups() -> None:
    hopper = device_target("sm_90a")
    programs = [each for each in cupy_gpu.programs(hopper) if "USE_WGMMA" in dict(each.definitions)]
    ptx = compile_all(programs, replace(hopper, name="compute_90a", kind=PTX), WORKERS)
    assert len(ptx) == 4
    for each in ptx:
        assert b"wgmma.mma_async" in each.image and b"cp.async.bulk.tensor" in each.image and not each.complaints


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(("type", "engine"), slow_one_in(4, CHOICES))
def test_every_ninth_kernel_that_may_be_chosen_compiles(type: str, engine: str, architecture: str) -> None:
    """Others on each architecture."""
    assert_choices_compile(type, engine, architecture, 3 * [*ARCHITECTURES].index(architecture), 9)


@pytest.mark.exhaustive
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(("type", "engine"), CHOICES)
def test_all_kernels_that_may_be_chosen_compile(type: str, engine: str, architecture: str) -> None:
    assert_choices_compile(type, engine, architecture)


def assert_choices_compile(type: str, engine: str, architecture: str, first: int = 0, step: int = 1) -> None:
    target = device_target(architecture)
    if engine in engines(type, target, boxes=True):
        assert_clean([*dict.fromkeys(choices(type, engine, target))][first::step], target)
