"""The workspace of a batch norm from its forward to its backward pass, to whose sums the convolutions beside it add.

The convolution before it adds its results, and the one behind it, in the backward pass, their gradients. So neither is
read once more for the sums.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..batch_norm.cpu.passes import workspace_nbytes
from ..batch_norm.numba_cpu import Kept, sums_of
from ..cpu import epilogue

INTEGER = 8  # bytes of a word
RESERVED = 16  # words of an epilogue, in whole cache lines


class NormWorkspace:
    """Table and sums of one forward pass, for channels of a type, by as many threads as torch has now."""

    def __init__(self, kind: Any, channels: int) -> None:
        self.threads = torch.get_num_threads()
        self._one, self._channels = kind(1), channels
        itemsize: int = self._one.itemsize
        words = RESERVED + workspace_nbytes(channels, itemsize, self.threads) // INTEGER
        self._held = np.zeros(words, np.int64)
        self._epilogue: int = self._held.ctypes.data
        self.address = self._epilogue + RESERVED * INTEGER
        self._sums = sums_of(self.address, channels, itemsize)
        self._summed: tuple[Tensor, int] | None = None
        self._is_clear = True

    def moments(self) -> int:
        """Address of the epilogue of the convolution whose results are x."""
        self._is_clear = False
        self._held[: epilogue.WORDS] = epilogue.moments(self._one, self.address, self._channels, self._sums)
        return self._epilogue

    def gradients(self, made: Tensor, x: Tensor, y: Tensor | None, added: Tensor | None, relu: bool) -> int:
        """Address of the epilogue of a product that fills the gradient of y, a tensor like x, after the forward pass.

        y: only if something was added to it before the ReLU. added: the rest of the gradient.
        """
        if not self._is_clear:  # sums that nobody has used
            self._held[(self._sums.address - self._epilogue) // INTEGER :] = 0
        self._is_clear, self._summed, to = False, None, made.data_ptr()
        of_y, of_added = (None if each is None else each.data_ptr() - to for each in (y, added))
        self._held[: epilogue.WORDS] = epilogue.gradients(
            self._one, self.address, self._channels, x.data_ptr() - to, of_y, of_added, relu, self._sums
        )
        return self._epilogue

    def promise(self, gradient: Tensor) -> None:
        """The sums are those of this gradient of y, as long as nothing is written to it."""
        self._summed = gradient, gradient._version

    def for_forward(self, summed: bool) -> Kept:
        """summed: by the epilogue of the convolution."""
        self._is_clear = True
        return Kept(self.address, self.threads, summed)

    def for_backward(self, gradient: Tensor) -> Kept:
        """With the sums if they are those of this gradient.

        Autograd returns the tensor that a function has returned, unless it had to add another one. It adds in place
        only to tensors that nobody else holds.
        """
        promised, self._summed, self._is_clear = self._summed, None, True
        summed = promised is not None and promised[0] is gradient and promised[1] == gradient._version
        return Kept(self.address, self.threads, summed)
