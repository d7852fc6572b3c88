"""Which code a GPU runs, by its compute capability."""

from collections.abc import Collection
from dataclasses import dataclass

from ..providers import Unavailable

CUBIN, PTX = "cubin", "ptx"
HOPPER = "sm_90a"


@dataclass(frozen=True)
class Target:
    """What is compiled for a GPU: NVRTC's name of the architecture, machine code (cubin) or PTX, what that can do.

    The driver makes machine code of PTX when it is loaded. `capability` is that of the GPU, or with PTX an older one.
    """

    name: str
    kind: str
    capability: tuple[int, int]

    @property
    def has_wgmma(self) -> bool:
        """Whether the code may have wgmma.mma_async, which no other architecture has (PTX ISA), and TMA."""
        return self.name == HOPPER

    @property
    def has_tensor_cores(self) -> bool:
        """Whether the code may have cp.async, and mma.sync of bf16, tf32, fp16 and int8 (PTX ISA: sm_80 and newer)."""
        return self.capability >= (8, 0)


def target(capability: tuple[int, int], supported: Collection[int]) -> Target:
    """What to compile for a GPU of that capability by an NVRTC that supports these, such as 90 for 9.0.

    A GPU that the compiler does not know yet is given PTX of the newest one before it. Unavailable if there is none.
    """
    number = 10 * capability[0] + capability[1]
    if number in supported:
        # Without its suffix, what Hopper alone has is not assembled.
        return Target(HOPPER if number == 90 else f"sm_{number}", CUBIN, capability)
    older = [known for known in supported if known < number]
    if not older:
        own, least = ("{}.{}".format(*divmod(each, 10)) for each in (number, min(supported)))
        raise Unavailable(f"a GPU of compute capability {own}; NVRTC compiles for {least} and newer")
    return Target(f"compute_{max(older)}", PTX, divmod(max(older), 10))
