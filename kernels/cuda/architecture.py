"""Which code a GPU runs, by its compute capability."""

from collections.abc import Collection
from dataclasses import dataclass

from ..spec import Unavailable

CUBIN, PTX = "cubin", "ptx"
HOPPER = (9, 0)


@dataclass(frozen=True)
class Target:
    """What is compiled for a GPU: NVRTC's name of the architecture, machine code (cubin) or PTX, the GPU's capability.

    The driver makes machine code of PTX when it is loaded.
    """

    name: str
    kind: str
    capability: tuple[int, int]

    @property
    def has_wgmma(self) -> bool:
        """Whether it has wgmma.mma_async, which only this one capability has (PTX ISA, wgmma); TMA is there as well."""
        return self.capability == HOPPER

    @property
    def has_tensor_cores(self) -> bool:
        """Whether it has cp.async, and mma.sync on bf16, tf32, fp16 and int8 (PTX ISA, mma: sm_80 and higher)."""
        return self.capability >= (8, 0)


def target(capability: tuple[int, int], supported: Collection[int]) -> Target:
    """What to compile for a GPU of that capability by an NVRTC that supports these, such as 90 for 9.0.

    A GPU that the compiler does not know yet is given PTX of the newest one before it. Unavailable if there is none.
    """
    major, minor = capability
    number = 10 * major + minor
    if number in supported:
        # Without the suffix, what is for this capability alone is not assembled.
        return Target(f"sm_{number}{'a' if capability == HOPPER else ''}", CUBIN, capability)
    older = [known for known in supported if known < number]
    if not older:
        least = "{}.{}".format(*divmod(min(supported), 10))
        raise Unavailable(f"a GPU of compute capability {major}.{minor}; NVRTC compiles for {least} and newer")
    return Target(f"compute_{max(older)}", PTX, capability)
