"""The code that a GPU gets, from the oldest to future ones."""

import pytest

from hpcai.kernels.cuda.architecture import Target, target
from hpcai.kernels.providers import Unavailable

KNOWN = (75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121)  # to NVRTC 13.0


@pytest.mark.parametrize(
    ("capability", "name", "kind", "wgmma", "tensor_cores"),
    [
        ((7, 5), "sm_75", "cubin", False, False),
        ((8, 0), "sm_80", "cubin", False, True),
        ((8, 6), "sm_86", "cubin", False, True),
        ((8, 9), "sm_89", "cubin", False, True),
        ((9, 0), "sm_90a", "cubin", True, True),
        ((10, 0), "sm_100", "cubin", False, True),
        ((11, 5), "compute_110", "ptx", False, True),
        ((12, 0), "sm_120", "cubin", False, True),
        ((13, 0), "compute_121", "ptx", False, True),
    ],
)
def test_a_gpu_gets_its_own_code_or_ptx_that_the_driver_can_translate(
    capability: tuple[int, int], name: str, kind: str, wgmma: bool, tensor_cores: bool
) -> None:
    found = target(capability, KNOWN)
    assert (found.name, found.kind) == (name, kind)
    assert (found.capability == capability) == (kind == "cubin")
    assert (found.has_wgmma, found.has_tensor_cores) == (wgmma, tensor_cores)


def test_code_has_the_instructions_that_its_compiler_knows() -> None:
    before_hopper = target((9, 0), (70, 75, 80, 86))
    assert before_hopper == Target("compute_86", "ptx", (8, 6))
    assert before_hopper.has_tensor_cores and not before_hopper.has_wgmma
    assert not target((8, 0), (70, 75)).has_tensor_cores


def test_a_gpu_too_old_for_the_compiler_is_unavailable_with_both_capabilities() -> None:
    with pytest.raises(Unavailable, match=r"capability 7\.0; NVRTC compiles for 7\.5 and newer"):
        target((7, 0), KNOWN)
