"""Decoding of one image file into packed pixels; other files are refused with a reason."""

import struct
import warnings
import zlib
from io import BytesIO
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

from hpcai.data.image_shards import SIDE
from hpcai.errors import DataError

FORMATS = ("JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP", "PPM")  # independent of the file name
# exceptions of Pillow, documented and observed, for files that are not valid images
_BROKEN = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    OSError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
)


class Refusal(Exception):
    """A file that cannot be packed, with the reason."""


def read(path: Path) -> npt.NDArray[np.uint8]:
    """The middle square of an image as uint8[256, 256, 3].

    Raises Refusal if the file is not a complete image, and DataError if it cannot be read: that may be a fault of the
    machine and not of the image.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}; allowed: files as they were listed") from error
    if not content:
        raise Refusal("empty file")
    try:
        with warnings.catch_warnings(action="ignore"), Image.open(BytesIO(content), formats=FORMATS) as image:
            return _square(image)
    except UnidentifiedImageError:
        raise Refusal("not an image of a known format") from None
    except _BROKEN as error:
        raise Refusal(" ".join(str(error).split()) or type(error).__name__) from error


def _square(image: Image.Image) -> npt.NDArray[np.uint8]:
    """Middle square, resized to 256 by Pillow's antialiased bilinear filter; only that part is resized."""
    width, height = image.size
    short = min(width, height)
    left, top = (width - short) / 2, (height - short) / 2
    box = (left, top, left + short, top + short)
    square = _rgb(image).resize((SIDE, SIDE), Image.Resampling.BILINEAR, box)
    return np.asarray(square, np.uint8)


def _rgb(image: Image.Image) -> Image.Image:
    """Red, green and blue with 8 bits; transparency is dropped, as usual loaders do."""
    if image.mode.startswith("I"):
        return _from_16_bits(np.asarray(image)).convert("RGB")
    if image.mode == "F":
        raise Refusal("floating-point pixels")
    if image.mode == "P":
        image = image.convert("RGBA")  # a transparent colour of a palette is a colour
    return image.convert("RGB")


def _from_16_bits(pixels: npt.NDArray[np.integer]) -> Image.Image:
    """Image of the upper bytes; Pillow's own conversion would clip at 255."""
    if pixels.min() < 0 or pixels.max() > 0xFFFF:
        raise Refusal("pixels of more than 16 bits")
    return Image.fromarray((pixels >> 8).astype(np.uint8))
