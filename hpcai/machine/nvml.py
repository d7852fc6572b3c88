"""GPU utilisation, memory, energy and NVLink by NVML, the library of the driver, called by ctypes.

No context is created. GPUs are looked up by UUID (hpcai.machine.cuda_driver), because CUDA_VISIBLE_DEVICES and
CUDA_DEVICE_ORDER change the numbers of CUDA but not those of NVML.

Source: NVML API reference, `nvmlDeviceGetHandleByUUID`, `nvmlDeviceGetUtilizationRates`, `nvmlDeviceGetMemoryInfo`,
`nvmlDeviceGetTotalEnergyConsumption` (compute capability 7.0 and newer), `nvmlDeviceGetFieldValues`,
`nvmlDeviceGetMaxClockInfo`.
"""

import ctypes
from collections.abc import Sequence
from contextlib import suppress
from ctypes import byref, c_int, c_longlong, c_uint, c_ulonglong, c_void_p, create_string_buffer
from typing import Any

LIBRARY = "libnvidia-ml.so.1"
SUCCESS = 0
VERSION_BYTES = 80
# NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX and _TX: data without overhead of the protocol, in KiB
RECEIVED, SENT = 139, 138
ALL_LINKS = 2**32 - 1  # as the scope of a field: the sum over the links of a GPU
SM_CLOCK, MHZ = 1, 1e6  # NVML_CLOCK_SM, and the unit in which it is given
KIB = 1024


class _Utilisation(ctypes.Structure):
    _fields_ = (("gpu", c_uint), ("memory", c_uint))  # percent


class _Memory(ctypes.Structure):
    _fields_ = (("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong))  # bytes


class _FieldValue(ctypes.Structure):
    _fields_ = (
        *(("field", c_uint), ("scope", c_uint), ("timestamp", c_longlong), ("latency", c_longlong)),
        *(("type", c_int), ("answer", c_int), ("value", c_ulonglong)),
    )


def driver_version(library: str = LIBRARY) -> str:
    """Version of NVIDIA's driver, such as 580.65.06; `unknown` if NVML does not report it."""
    version = create_string_buffer(VERSION_BYTES)
    with suppress(OSError):
        nvml = ctypes.CDLL(library)
        if nvml.nvmlInit_v2() == SUCCESS and nvml.nvmlSystemGetDriverVersion(version, VERSION_BYTES) == SUCCESS:
            return version.value.decode("ascii", "replace")
    return "unknown"


class Gpus:
    """GPUs of this node, by their identities; all quantities are None without GPUs or if NVML fails."""

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
        """Share of the driver's last sampling period (up to 1 s) in which a kernel ran, mean of the GPUs.

        None for a MIG instance: NVML reports it only for the whole GPU.
        """
        found = self._asked("nvmlDeviceGetUtilizationRates", _Utilisation)
        return sum(one.gpu for one in found) / (100 * len(found)) if found else None

    def used_bytes(self) -> float | None:
        """Bytes of a GPU in use by all processes, mean of the GPUs."""
        found = self._asked("nvmlDeviceGetMemoryInfo", _Memory)
        return sum(one.used for one in found) / len(found) if found else None

    def joules(self) -> float | None:
        """Total energy of the GPUs in joules since the driver was loaded; None for a MIG instance."""
        found = self._asked("nvmlDeviceGetTotalEnergyConsumption", c_ulonglong)  # millijoules
        return sum(one.value for one in found) / 1000 if found else None

    def highest_clock(self) -> float | None:
        """Largest clock of the multiprocessors in Hz, of the GPU that has the largest; None where NVML has none."""
        if not self._all or not hasattr(self._nvml, "nvmlDeviceGetMaxClockInfo"):
            return None
        found = [c_uint() for _ in self._handles]
        ask: Any = self._nvml.nvmlDeviceGetMaxClockInfo  # type: ignore[union-attr]
        answers = [ask(handle, SM_CLOCK, byref(one)) for handle, one in zip(self._handles, found, strict=True)]
        return MHZ * max(one.value for one in found) if not any(answers) else None

    def nvlink_bytes(self) -> tuple[dict[str, int], dict[str, int]] | None:
        """Bytes received and sent by NVLink since the driver was loaded, by GPU; None without NVLink."""
        if not self._all or not hasattr(self._nvml, "nvmlDeviceGetFieldValues"):
            return None
        found = [self._nvlink(handle) for handle in self._handles]
        known = {str(number): pair for number, pair in enumerate(found) if pair is not None}
        if len(known) < len(found):
            return None
        return {gpu: pair[0] for gpu, pair in known.items()}, {gpu: pair[1] for gpu, pair in known.items()}

    def _nvlink(self, handle: c_void_p) -> tuple[int, int] | None:
        assert self._nvml
        asked = (_FieldValue * 2)(*(_FieldValue(field=field, scope=ALL_LINKS) for field in (RECEIVED, SENT)))
        if self._nvml.nvmlDeviceGetFieldValues(handle, 2, asked) != SUCCESS:
            return None
        received, sent = asked
        return None if received.answer or sent.answer else (received.value * KIB, sent.value * KIB)

    def _asked(self, function: str, kind: type[Any]) -> list[Any]:
        """Results of a function of NVML for each GPU; empty unless it succeeds for all."""
        if not self._all:
            return []
        found = [kind() for _ in self._handles]
        ask = getattr(self._nvml, function)
        answers = [ask(handle, byref(one)) for handle, one in zip(self._handles, found, strict=True)]
        return found if all(answer == SUCCESS for answer in answers) else []
