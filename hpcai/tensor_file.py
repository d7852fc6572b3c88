"""Files of tensors: safetensors files with a SHA-256 of everything before it as their last tensor; no pickle.

Layout: length of the header as uint64, little-endian; header in JSON (type, shape and offsets by name; text about the
file); the data, largest elements first, so that each tensor is aligned; the digest, 32 bytes.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hpcai.errors import DataError
from hpcai.machine.disk import flush

TYPES = {
    **{"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16},
    **{"I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "BOOL": torch.bool},
    **{"U64": torch.uint64, "U32": torch.uint32, "U16": torch.uint16, "U8": torch.uint8},
    **{"F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2},
}
WORDS = {kind: word for word, kind in TYPES.items()}
DIGEST, ABOUT, META, STRIDES = "sha256 of all before", "__metadata__", "meta", "strides"  # keys of the header
DIGEST_BYTES, ALIGNED = 32, 8


def write(path: Path, tensors: Mapping[str, Tensor], meta: Any = None) -> str:
    """Write tensors of any device and an object of JSON; readers see the old or the new file, whole, after any kill.

    Returns the SHA-256 (hexadecimal) of the file as it should be. DataError where it cannot be written. Copies one
    tensor at a time to the host. A kill may leave "." + its name beside it, which the next write replaces.
    """
    temporary = path.with_name(f".{path.name}")
    try:
        total = _write(temporary, tensors, meta)
        temporary.replace(path)
        flush(path.parent)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise DataError(f"cannot write {path.absolute()}: {error.strerror}") from None
    return total


def read(path: Path) -> tuple[dict[str, Tensor], Any]:
    """The tensors of a file, on the host, and the object of JSON, as `read_with_digest` does."""
    return read_with_digest(path)[0]


def read_with_digest(path: Path) -> tuple[tuple[dict[str, Tensor], Any], str]:
    """What a file has, and the SHA-256 (hexadecimal) of the whole file as it was read.

    The tensors are on the host. The digest in the file is compared before anything is used. FileNotFoundError if there
    is none, DataError if it is torn, altered, of another kind, or a symbolic link.
    """
    try:
        data = _bytes(path)
    except FileNotFoundError:
        raise
    except (OSError, RuntimeError) as error:  # torch raises RuntimeError where memory is short
        raise DataError(f"cannot read {path.absolute()}: {getattr(error, 'strerror', None) or error}") from None
    total, digest = sha256(_memory(data[:-DIGEST_BYTES])), bytes(_memory(data[-DIGEST_BYTES:]))
    if total.digest() != digest:
        raise DataError(
            f"{path.absolute()} is torn, altered or no file of tensors that hpcai wrote: its SHA-256 differs"
        )
    total.update(digest)
    try:
        return _parsed(data), total.hexdigest()
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise DataError(f"{path.absolute()} is no file of tensors: {error}") from None


def _write(path: Path, tensors: Mapping[str, Tensor], meta: Any) -> str:
    total, header = sha256(), _header(tensors, meta)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    with os.fdopen(descriptor, "wb") as file:
        for block in _blocks(header, tensors):
            total.update(block)
            file.write(block)
        file.write(total.digest())
        total.update(total.digest())
        file.flush()
        os.fsync(file.fileno())
    return total.hexdigest()


def _header(tensors: Mapping[str, Tensor], meta: Any) -> bytes:
    """Length and header; names stand in the order of `tensors`. TypeError for what the format has no word for."""
    assert not {DIGEST, ABOUT} & tensors.keys()
    places, begin = {}, 0
    for name in _order(tensors):
        end = begin + tensors[name].nbytes
        places[name] = (begin, end)
        begin = end
    strides = {name: found for name, value in tensors.items() if (found := _strides(value))}
    fields: dict[str, Any] = {ABOUT: {META: json.dumps(meta), STRIDES: json.dumps(strides)}}
    fields |= {name: _field(value, places[name]) for name, value in tensors.items()}
    fields[DIGEST] = {"dtype": "U8", "shape": [DIGEST_BYTES], "data_offsets": [begin, begin + DIGEST_BYTES]}
    text = json.dumps(fields).encode()
    text += b" " * (-len(text) % ALIGNED)
    return len(text).to_bytes(8, "little") + text


def _field(value: Tensor, place: tuple[int, int]) -> dict[str, Any]:
    if value.dtype not in WORDS:
        raise TypeError(f"tensors of type {value.dtype} cannot be written")
    return {"dtype": WORDS[value.dtype], "shape": list(value.shape), "data_offsets": list(place)}


def _strides(value: Tensor) -> tuple[int, ...] | None:
    """Strides of a copy of a tensor; None if it is contiguous.

    Fused optimisers go through weights and their state in the order of memory, so a reader must find the same order.
    """
    found = torch.empty_like(value, device="meta").stride()
    return None if found == torch.empty(value.shape, device="meta").stride() else found


def _order(tensors: Mapping[str, Tensor]) -> list[str]:
    return sorted(tensors, key=lambda name: -tensors[name].element_size())


def _blocks(header: bytes, tensors: Mapping[str, Tensor]) -> Iterator[bytes | memoryview]:
    yield header
    for name in _order(tensors):
        host = tensors[name].detach().to("cpu").contiguous()
        yield _memory(host.reshape(-1).view(torch.uint8))


def _bytes(path: Path) -> Tensor:
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        data = torch.empty(os.fstat(file.fileno()).st_size, dtype=torch.uint8)
        count = file.readinto(_memory(data))
    return data[:count]


def _memory(data: Tensor) -> memoryview:
    array: Any = data.numpy()
    return memoryview(array)


def _parsed(data: Tensor) -> tuple[dict[str, Tensor], Any]:
    begin = 8 + int.from_bytes(bytes(_memory(data[:8])), "little")
    fields = json.loads(bytes(_memory(data[8:begin])))
    about = {name: json.loads(text) for name, text in fields.pop(ABOUT).items()}
    del fields[DIGEST]
    tensors = {name: _tensor(data[begin:], field, about[STRIDES].get(name)) for name, field in fields.items()}
    return tensors, about[META]


def _tensor(data: Tensor, field: dict[str, Any], strides: list[int] | None) -> Tensor:
    """A copy, aligned: torch's generators crash on a state that is not. The data are in the order of the indices."""
    begin, end = field["data_offsets"]
    kind, shape = TYPES[field["dtype"]], field["shape"]
    if end - begin != prod(shape) * kind.itemsize:
        raise ValueError("a shape and a length disagree")
    values = data[begin:end].view(kind).reshape(shape)
    return values.clone() if strides is None else torch.empty_strided(shape, strides, dtype=kind).copy_(values)
