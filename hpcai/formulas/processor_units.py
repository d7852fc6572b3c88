"""The widest known units of processors: operations, and bytes loaded and stored, per cycle of a core or multiprocessor.

A multiply-add counts as 2 operations. Where models of a family differ, the widest counts. Sources, by processor:
AMD: Software Optimization Guides for families 17h, 19h and 1Ah (56305, 56665, 57647, 58455). Zen 4 executes 512-bit
instructions in two halves, servers and desktops of Zen 5 in one. Intel: Optimization Reference Manual (248966), the
sections on each microarchitecture and on AMX (16 x 16 x 64 bytes in 16 cycles); uops.info for the throughput of VNNI
and BF16 instructions. Arm: Software Optimization Guides of Neoverse N1, V1, N2, V2, N3 and V3 (two or four 128-bit
pipelines; BFMMLA 32 and SMMLA 64 operations in each). Fujitsu: A64FX Microarchitecture Manual. Apple: Asahi Linux and
Johnson, Apple M1 microarchitecture. NVIDIA: whitepapers of V100, Turing, A100, GA102, Ada, H100 and Blackwell, dense
rates / (multiprocessors x boost clock); CUDA Programming Guide, arithmetic instructions.
"""

from collections.abc import Collection
from typing import NamedTuple

from hpcai.kernels.spec import DTYPES

ARM, NVIDIA = "Arm", "NVIDIA"  # as `vendor`; ARM's families are implementers, its models are parts
# Flags of /proc/cpuinfo that rows of the table ask for.
FEATURES = ("avx2", "fma", "avx512f", "avx512bw", "avx512_bf16", "avx512_fp16", "amx_bf16", "amx_int8")


class Units(NamedTuple):
    """Operations per cycle by type, and bytes per cycle that loads and stores move together.

    half: fp16 and bf16; tf32: on GPUs, elsewhere that of fp32.
    """

    name: str
    fp32: int
    fp64: int
    half: int
    int8: int
    moved: int
    tf32: int = 0

    def operations(self, dtype: str) -> int:
        """Operations per cycle on a type of the products (hpcai.kernels.spec.DTYPES)."""
        assert dtype in DTYPES
        return {"fp32": self.fp32, "fp64": self.fp64, "int8": self.int8, "tf32": self.tf32 or self.fp32}.get(
            dtype, self.half
        )


class Row(NamedTuple):
    """Processors of a vendor and family, with models in a range, that have all these features; their units."""

    vendor: str
    family: int
    models: range
    units: Units
    features: frozenset[str] = frozenset()


AVX2, AVX512 = frozenset({"avx2", "fma"}), frozenset({"avx2", "fma", "avx512f", "avx512bw"})
_ZEN1 = Units("AMD Zen, 2 x 128 bits", 16, 8, 16, 64, 32)
_ZEN2 = Units("AMD Zen 2 or 3, 2 x 256 bits", 32, 16, 32, 128, 96)
_ZEN4 = Units("AMD Zen 4, 2 x 256 bits", 32, 16, 64, 128, 96)
_ZEN5 = Units("AMD Zen 5, 2 x 512 bits", 64, 32, 128, 256, 192)
_N1 = Units("Arm, 2 x 128 bits", 16, 8, 32, 64, 64)
_N2 = Units("Arm, 2 x 128 bits, matrix instructions", 16, 8, 64, 128, 80)
_V1 = Units("Arm, 4 x 128 bits, matrix instructions", 32, 16, 128, 256, 96)
_INTEL = range(0x3C, 0xDE)  # models from Haswell on
_INTEL_AMX = Units("Intel AMX", 64, 32, 1024, 2048, 256)
_INTEL_BF16 = Units("Intel AVX-512 with 16-bit products", 64, 32, 128, 256, 256)
_INTEL_512 = Units("Intel AVX-512, 2 x 512 bits", 64, 32, 64, 256, 256)
_INTEL_256 = Units("Intel AVX2, 2 x 256 bits", 32, 16, 32, 128, 160)
# The first row that fits counts.
_CPUS = (
    Row("AuthenticAMD", 0x17, range(0x30), _ZEN1, AVX2),
    Row("AuthenticAMD", 0x17, range(0x30, 0x100), _ZEN2, AVX2),
    Row("HygonGenuine", 0x18, range(0x10), _ZEN1, AVX2),
    *(
        Row("AuthenticAMD", 0x19, range(*models), _ZEN4, AVX512)
        for models in ((0x10, 0x20), (0x60, 0x80), (0xA0, 0xB0))
    ),
    Row("AuthenticAMD", 0x19, range(0x100), _ZEN2, AVX2),
    Row("AuthenticAMD", 0x1A, range(0x80), _ZEN5, AVX2),
    Row("GenuineIntel", 6, _INTEL, _INTEL_AMX, AVX512 | {"amx_bf16"}),
    Row("GenuineIntel", 6, _INTEL, _INTEL_AMX, AVX512 | {"amx_int8"}),
    Row("GenuineIntel", 6, _INTEL, _INTEL_BF16, AVX512 | {"avx512_bf16"}),
    Row("GenuineIntel", 6, _INTEL, _INTEL_BF16, AVX512 | {"avx512_fp16"}),
    Row("GenuineIntel", 6, _INTEL, _INTEL_512, AVX512),
    Row("GenuineIntel", 6, _INTEL, _INTEL_256, AVX2),
    *(Row(ARM, 0x41, range(part, part + 1), _N1) for part in (0xD08, 0xD0B, 0xD0C)),  # Cortex-A72, A76, Neoverse N1
    *(Row(ARM, 0x41, range(part, part + 1), _N2) for part in (0xD49, 0xD8E)),  # Neoverse N2, N3
    *(Row(ARM, 0x41, range(part, part + 1), _V1) for part in (0xD40, 0xD4F, 0xD84)),  # Neoverse V1, V2, V3
    Row(ARM, 0x46, range(1, 2), Units("Fujitsu A64FX, 2 x 512 bits", 64, 32, 128, 256, 128)),
    Row(ARM, 0x48, range(0xD01, 0xD02), _N1),  # Kunpeng 920
    *(Row(ARM, family, range(part, part + 1), _N1) for family, part in ((0x42, 0x516), (0x43, 0xAF))),  # ThunderX2
    Row(ARM, 0xC0, range(0xAC3, 0xAC6), _N2),  # AmpereOne
    Row(ARM, 0x61, range(0x20, 0x40), _V1),  # Apple M1, M2
)
# By compute capability. Loads and stores: 128 bytes per cycle and multiprocessor.
_GPUS = (
    Row(NVIDIA, 7, range(1), Units("NVIDIA 7.0", 128, 64, 1024, 512, 128)),
    Row(NVIDIA, 7, range(5, 6), Units("NVIDIA 7.5", 128, 4, 1024, 2048, 128)),
    Row(NVIDIA, 8, range(1), Units("NVIDIA 8.0", 128, 128, 2048, 4096, 128, 1024)),
    Row(NVIDIA, 8, range(6, 7), Units("NVIDIA 8.6", 256, 8, 1024, 2048, 128, 512)),
    Row(NVIDIA, 8, range(7, 8), Units("NVIDIA 8.7", 256, 8, 2048, 4096, 128, 1024)),
    Row(NVIDIA, 8, range(9, 10), Units("NVIDIA 8.9", 256, 8, 1024, 2048, 128, 512)),
    Row(NVIDIA, 9, range(1), Units("NVIDIA 9.0", 256, 256, 4096, 8192, 128, 2048)),
    Row(NVIDIA, 10, range(4), Units("NVIDIA 10.0", 256, 128, 8192, 16384, 128, 4096)),
    Row(NVIDIA, 12, range(2), Units("NVIDIA 12.0", 256, 8, 1024, 2048, 128, 512)),
)


def units_of(vendor: str, family: int, model: int, features: Collection[str]) -> Units | None:
    """Units of a processor; None of one that is not in the table.

    vendor, family, model: of /proc/cpuinfo, of Arm ARM, implementer and part, of a GPU NVIDIA and its compute
    capability.
    """
    for row in (*_CPUS, *_GPUS):
        if (row.vendor, row.family) == (vendor, family) and model in row.models and row.features <= {*features}:
            return row.units
    return None
