"""The last two checkpoints of a rank: files that a thread writes while the training goes on."""

import re
import sys
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from torch import Tensor

from hpcai import tensor_file
from hpcai.errors import DataError

KEPT = 2
Content = tuple[dict[str, Tensor], Any]


class Generations:
    """Checkpoints of a rank, numbered by the steps of the training until then.

    A new file is whole and on the disk before the oldest is removed.
    """

    def __init__(self, folder: Path, name: str) -> None:
        """name: of the rank's files in the folder, without number and suffix."""
        self._folder, self._name = folder, name
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._written: Future[None] | None = None
        self._told = False

    def newest(self) -> tuple[int, Content] | None:
        """The newest checkpoint that is whole, and its number."""
        found = ((number, self.read(number)) for number in reversed(self._numbers()))
        return next(((number, content) for number, content in found if content), None)

    def read(self, number: int) -> Content | None:
        """A checkpoint; None if there is none, or if it is damaged, which is told on stderr."""
        try:
            return tensor_file.read(self._path(number))
        except FileNotFoundError:
            return None
        except DataError as error:
            print(f"hpcai: checkpoint left out: {error}", file=sys.stderr, flush=True)
            return None

    def write(self, number: int, tensors: Mapping[str, Tensor], meta: Any) -> None:
        """Begin to write a checkpoint, after the one before is written. Tensors must not change until then."""
        self.wait()
        self._written = self._thread.submit(self._write, number, tensors, meta)

    def wait(self) -> None:
        """Wait for the last checkpoint."""
        if self._written is not None:
            self._written.result()

    def remove_after(self, number: int) -> None:
        """Remove checkpoints with a larger number: the training goes on from an earlier one."""
        for other in self._numbers():
            if other > number:
                self._path(other).unlink(missing_ok=True)

    def close(self) -> None:
        """Wait for the last checkpoint, and end the thread."""
        self.wait()
        self._thread.shutdown()

    def _write(self, number: int, tensors: Mapping[str, Tensor], meta: Any) -> None:
        """A checkpoint that cannot be written is told once, and the training goes on."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            tensor_file.write(self._path(number), tensors, meta)
            for other in self._numbers()[:-KEPT]:
                self._path(other).unlink(missing_ok=True)
        except (DataError, OSError) as error:
            if not self._told:
                print(f"hpcai: no checkpoint: {error}", file=sys.stderr, flush=True)
            self._told = True

    def _numbers(self) -> list[int]:
        """Ascending."""
        pattern = re.compile(rf"{re.escape(self._name)}\.(\d+)\.safetensors")
        names = [path.name for path in self._folder.glob("*")] if self._folder.is_dir() else []
        return sorted(int(match[1]) for name in names if (match := pattern.fullmatch(name)))

    def _path(self, number: int) -> Path:
        return self._folder / f"{self._name}.{number}.safetensors"
