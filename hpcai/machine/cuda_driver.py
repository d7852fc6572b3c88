"""UUIDs of the GPUs as the CUDA driver numbers them, by ctypes: without torch and without a context.

Source: CUDA driver API reference. In MIG mode `cuDeviceGetUuid_v2` returns the UUID of the instance, `cuDeviceGetUuid`
that of its GPU; the name of an instance contains the word MIG (NVIDIA Multi-Instance GPU user guide).
"""

import ctypes
from collections.abc import Callable
from ctypes import byref, c_char, c_int, c_ubyte
from functools import cache
from typing import Any
from uuid import UUID

LIBRARY = "libcuda.so.1"
SUCCESS, NO_DEVICE = 0, 100
WHOLE, INSTANCE = "GPU-", "MIG-"  # prefixes of identities, as in `nvidia-smi -L` and CUDA_VISIBLE_DEVICES
NAME_BYTES = 256


@cache
def identities(library: str = LIBRARY) -> tuple[str, ...] | None:
    """Identity (`GPU-` or `MIG-`, then the UUID) of each GPU that this process may use, in the order of their numbers.

    None without a working driver. GPUs hidden by CUDA_VISIBLE_DEVICES are not included; CUDA ignores later changes of
    that variable.
    """
    try:
        cuda = ctypes.CDLL(library)
    except OSError:
        return None
    started, count = cuda.cuInit(0), c_int()
    if started == NO_DEVICE:
        return ()
    if started != SUCCESS or cuda.cuDeviceGetCount(byref(count)) != SUCCESS:
        return None
    found = [_identity(cuda, number) for number in range(count.value)]
    return None if None in found else tuple(filter(None, found))


def _identity(cuda: Any, number: int) -> str | None:
    device, name = c_int(), (c_char * NAME_BYTES)()
    if cuda.cuDeviceGet(byref(device), number) != SUCCESS:
        return None
    cuda.cuDeviceGetName(name, NAME_BYTES, device)
    whole = _uuid(getattr(cuda, "cuDeviceGetUuid", None), device)
    own = _uuid(getattr(cuda, "cuDeviceGetUuid_v2", None), device) or whole  # drivers before 11.4 lack _v2
    part = b" MIG " in name.value or (whole is not None and own != whole)
    return own and f"{INSTANCE if part else WHOLE}{own}"


def _uuid(ask: Callable[..., int] | None, device: c_int) -> str | None:
    found = (c_ubyte * 16)()
    return str(UUID(bytes=bytes(found))) if ask and ask(byref(found), device) == SUCCESS else None
