"""Compilation targets by compute capability of the GPU."""

from collections.abc import Collection
from dataclasses import dataclass

from ..providers import Unavailable

CUBIN, PTX = "cubin", "ptx"
HOPPER = "sm_90a"


@dataclass(frozen=True)
class Target:
    """Compilation target: NVRTC's name of the architecture, machine code (cubin) or PTX, and the capability that code
    may use.

    The driver compiles PTX when it is loaded. `capability` is that of the GPU, or with PTX an older one.
    """

    name: str
    kind: str
    capability: tuple[int, int]

    @property
    def has_wgmma(self) -> bool:
        """Whether code may use wgmma.mma_async and TMA; only sm_90a has wgmma (PTX ISA)."""
        return self.name == HOPPER

    @property
    def has_tensor_cores(self) -> bool:
        """Whether code may use cp.async, and mma.sync of bf16, tf32, fp16 and int8 (PTX ISA: sm_80 and newer)."""
        return self.capability >= (8, 0)


def target(capability: tuple[int, int], supported: Collection[int]) -> Target:
    """Compilation target of a GPU, for an NVRTC that supports these architectures, such as 90 for 9.0.

    A GPU newer than the compiler gets PTX of the newest older architecture. Unavailable if there is none.
    """
    number = 10 * capability[0] + capability[1]
    if number in supported:
        # The suffix enables instructions that only Hopper has.
        return Target(HOPPER if number == 90 else f"sm_{number}", CUBIN, capability)
    older = [known for known in supported if known < number]
    if not older:
        own, least = ("{}.{}".format(*divmod(each, 10)) for each in (number, min(supported)))
        raise Unavailable(f"a GPU of compute capability {own}; NVRTC compiles for {least} and newer")
    return Target(f"compute_{max(older)}", PTX, divmod(max(older), 10))
