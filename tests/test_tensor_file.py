"""Files of tensors: what is written is read back bit by bit; damaged and foreign files are refused; no pickle."""

import ast
import os
import random
import resource
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
import torch
from launch import ROOT

from hpcai import tensor_file, tensor_tree
from hpcai.errors import DataError

# kernels/cpu/compiled.py names the exceptions of Numba, which pickles its entries itself
READERS_OF_PICKLES = ("pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal")
NUMBA = ROOT / "kernels/cpu/compiled.py"
ABOUT = {"rates": [0.1, 1e-300], "words": "ü\n", "nothing": None}


def tensors() -> dict[str, torch.Tensor]:
    """One tensor of each type with random bits, and shapes that need care."""
    torch.manual_seed(1)
    found = {
        word: torch.randint(0, 256, (3, 8), dtype=torch.uint8).view(kind)
        for word, kind in tensor_file.TYPES.items()
        if kind != torch.bool
    }
    transposed = torch.arange(6.0).reshape(2, 3).t()
    return found | {
        "scalar": torch.tensor(2.5),
        "none": torch.empty(0, 3),
        "flags": torch.tensor([True]),
        "t": transposed,
    }


def content(value: torch.Tensor) -> tuple[torch.dtype, torch.Size, tuple[int, ...], bytes]:
    """Type, shape, strides of a copy, and bytes."""
    return (
        value.dtype,
        value.shape,
        value.clone().stride(),
        value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes(),
    )


def test_every_type_and_shape_is_read_back_bit_by_bit(tmp_path: Path) -> None:
    path, written = tmp_path / "x", tensors()
    assert tensor_file.write(path, written, ABOUT) == sha256(path.read_bytes()).hexdigest()
    found, about = tensor_file.read(path)
    assert about == ABOUT
    assert list(found) == list(written)
    assert all(value.data_ptr() % 16 == 0 for value in found.values())
    assert {name: content(x) for name, x in found.items()} == {name: content(x) for name, x in written.items()}
    assert os.listdir(tmp_path) == ["x"]
    tensor_file.write(path, {})
    assert tensor_file.read(path) == ({}, None)


def flipped(data: bytes) -> bytes:
    place = random.randrange(len(data))
    return data[:place] + bytes([data[place] ^ 1 << random.randrange(8)]) + data[place + 1 :]


@pytest.mark.parametrize(
    "damage",
    [
        flipped,
        lambda data: data[: random.randrange(len(data))],
        lambda data: data + b"\0",
        lambda data: b"",
        lambda data: bytes(len(data)),
        lambda data: b"PK\3\4" + data,
    ],
    ids=["a bit", "torn", "longer", "empty", "zeros", "foreign"],
)
def test_a_damaged_file_is_refused_with_its_name(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "state"
    tensor_file.write(path, tensors(), ABOUT)
    whole = path.read_bytes()
    random.seed(1)
    for _ in range(50):
        path.write_bytes(damage(whole))
        with pytest.raises(DataError, match=f"{path} is torn, altered or no file of tensors"):
            tensor_file.read(path)


def test_a_file_with_a_true_digest_and_a_wrong_header_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state"
    for text in (b"", b"[]", b"{}", b'{"__metadata__":{}}', b"\xff", b'{"__metadata__":{"meta":"1"}}'):
        data = len(text).to_bytes(8, "little") + text
        path.write_bytes(data + sha256(data).digest())
        with pytest.raises(DataError, match="is no file of tensors"):
            tensor_file.read(path)


def test_a_file_that_is_missing_a_link_or_a_folder_is_not_read(tmp_path: Path) -> None:
    tensor_file.write(tmp_path / "x", tensors())
    (tmp_path / "link").symlink_to("x")
    for name, error in {"gone": FileNotFoundError, "link": DataError, ".": DataError}.items():
        with pytest.raises(error):
            tensor_file.read(tmp_path / name)


def test_what_cannot_be_written_leaves_the_old_file_and_follows_no_link(tmp_path: Path) -> None:
    path, other = tmp_path / "folder/x", tmp_path / "other"
    path.parent.mkdir()
    tensor_file.write(path, tensors())
    before = path.read_bytes()
    with pytest.raises(TypeError, match="complex64"):
        tensor_file.write(path, {"x": torch.zeros(2, dtype=torch.complex64)})
    other.write_text("kept")
    (path.parent / ".x").symlink_to(other)
    with pytest.raises(DataError, match=f"cannot write {path}"):
        tensor_file.write(path, tensors())
    assert (path.read_bytes(), other.read_text()) == (before, "kept")
    with pytest.raises(DataError, match="cannot write"):
        tensor_file.write(tmp_path / "gone/x", tensors())


def test_a_full_disk_leaves_the_old_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "x"
    tensor_file.write(path, {"x": torch.ones(4)})
    before, limits = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))  # Python ignores SIGXFSZ
    try:
        with pytest.raises(DataError, match=f"cannot write {path}: File too large"):
            tensor_file.write(path, {"x": torch.ones(10_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (path.read_bytes(), os.listdir(tmp_path)) == (before, ["x"])


def test_nested_values_are_taken_apart_and_joined(tmp_path: Path) -> None:
    value = {"a": [{0: torch.ones(2), "b": (0.9, None)}, True], "": {}, "c": (), 3: "x", "d": 2**60, "e": float("inf")}
    tensor_file.write(tmp_path / "x", *tensor_tree.separate(value))
    found = tensor_tree.join(*tensor_file.read(tmp_path / "x"))
    assert torch.equal(found["a"][0].pop(0), value["a"][0].pop(0))  # type: ignore[index]
    assert found == value
    for wrong in (object(), {(1,): 2}, [torch.device("cpu")]):
        with pytest.raises(TypeError, match="cannot be written"):
            tensor_tree.separate(wrong)
    with pytest.raises(TypeError, match="two tensors"):
        tensor_tree.separate({1: torch.ones(1), "1": torch.ones(1)})


def reads_pickles(node: ast.AST) -> bool:
    """Whether a node imports a reader of pickles, or calls torch's or NumPy's."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return any(alias.name.split(".")[0] in READERS_OF_PICKLES for alias in node.names) or (
            isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in READERS_OF_PICKLES
        )
    called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
    allowed = any(key.arg == "allow_pickle" for key in node.keywords) if isinstance(node, ast.Call) else False
    return allowed or called in ("torch.load", "torch.save", "torch.jit.load", "np.load", "numpy.load", "np.save")


def test_no_file_of_the_program_is_pickled() -> None:
    paths = [
        ROOT / "bench.py",
        *(x for folder in ("hpcai", "kernels", "benchmarks") for x in (ROOT / folder).rglob("*.py")),
    ]
    found = {path for path in paths for node in ast.walk(ast.parse(path.read_text("utf-8"))) if reads_pickles(node)}
    assert found <= {NUMBA}


@pytest.mark.parametrize("text", ["import pickle", "from torch import x, pickle", "torch.load(x)", "f(allow_pickle=1)"])
def test_the_search_for_pickles_finds_one(text: str) -> None:
    assert any(map(reads_pickles, ast.walk(ast.parse(text))))
