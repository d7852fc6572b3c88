"""GPUs as the driver's library NVML tells of them; called by ctypes, so that nothing has to be installed.

No context is created. GPUs are looked up by UUID (hpcai.machine.cuda_driver), because CUDA_VISIBLE_DEVICES and
CUDA_DEVICE_ORDER change the numbers of CUDA but not those of NVML.

Source: NVML API reference, `nvmlDeviceGetHandleByUUID`, `nvmlDeviceGetUtilizationRates`, `nvmlDeviceGetMemoryInfo`,
`nvmlDeviceGetTotalEnergyConsumption` (compute capability 7.0 and newer).
"""

import ctypes
from collections.abc import Sequence
from contextlib import suppress
from ctypes import byref, c_uint, c_ulonglong, c_void_p, create_string_buffer
from typing import Any

LIBRARY = "libnvidia-ml.so.1"
SUCCESS = 0
VERSION_BYTES = 80


class _Utilisation(ctypes.Structure):
    _fields_ = (("gpu", c_uint), ("memory", c_uint))  # percent


class _Memory(ctypes.Structure):
    _fields_ = (("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong))  # bytes


def driver_version(library: str = LIBRARY) -> str:
    """Of NVIDIA's driver, such as 580.65.06; `unknown` where NVML does not tell."""
    told = create_string_buffer(VERSION_BYTES)
    with suppress(OSError):
        nvml = ctypes.CDLL(library)
        if nvml.nvmlInit_v2() == SUCCESS and nvml.nvmlSystemGetDriverVersion(told, VERSION_BYTES) == SUCCESS:
            return told.value.decode("ascii", "replace")
    return "unknown"


class Gpus:
    """Some GPUs of this node, by their identities; without them, or where NVML fails, it tells nothing."""

    def __init__(self, identities: Sequence[str], library: str = LIBRARY) -> None:
        self._handles: list[c_void_p] = []
        try:
            self._nvml = ctypes.CDLL(library) if identities else None
        except OSError:
            self._nvml = None
        if self._nvml and self._nvml.nvmlInit_v2() == SUCCESS:
            found = [self._handle(identity) for identity in identities]
            self._handles = [handle for handle in found if handle is not None]
        self._all = len(self._handles) == len(identities) > 0

    def _handle(self, identity: str) -> c_void_p | None:
        assert self._nvml
        handle = c_void_p()
        return handle if self._nvml.nvmlDeviceGetHandleByUUID(identity.encode(), byref(handle)) == SUCCESS else None

    def utilisation(self) -> float | None:
        """Share of time in which a kernel ran, of the driver's last period (up to 1 s), mean of the GPUs.

        Of a part of a GPU (MIG) NVML tells none; that of the whole would be a guess.
        """
        found = self._asked("nvmlDeviceGetUtilizationRates", _Utilisation)
        return sum(one.gpu for one in found) / (100 * len(found)) if found else None

    def used_bytes(self) -> float | None:
        """Bytes of a GPU that are in use, by whomever, mean of the GPUs."""
        found = self._asked("nvmlDeviceGetMemoryInfo", _Memory)
        return sum(one.used for one in found) / len(found) if found else None

    def joules(self) -> float | None:
        """Energy that the GPUs have taken since the driver was loaded, all together; None of a part of a GPU."""
        found = self._asked("nvmlDeviceGetTotalEnergyConsumption", c_ulonglong)  # millijoules
        return sum(one.value for one in found) / 1000 if found else None

    def _asked(self, function: str, kind: type[Any]) -> list[Any]:
        """What a function of NVML says of each GPU; nothing unless it does of all."""
        if not self._all:
            return []
        found = [kind() for _ in self._handles]
        ask = getattr(self._nvml, function)
        answers = [ask(handle, byref(one)) for handle, one in zip(self._handles, found, strict=True)]
        return found if all(answer == SUCCESS for answer in answers) else []
