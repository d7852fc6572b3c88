"""A small class-folder tree of real JPEG and PNG files, among them unusual ones as in ImageNet, and broken ones."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

CLASSES = ("n01440764", "n02105855", "n0306245", "ünï code")
RANDOM_SIZES = ((300, 260), (200, 400), (64, 48), (257, 256))


def drawing(seed: int, width: int, height: int) -> np.ndarray:
    """A smooth image of many colours, uint8[height, width, 3]; its hue depends on the seed."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width] / max(width, height)
    waves = [np.sin(2 * np.pi * (x * a + y * b + c)) for a, b, c in random.uniform(0, 2, (3, 3))]
    return (127.5 + 120 * np.stack(waves, 2)).astype(np.uint8)


def coloured(label: int, seed: int, width: int, height: int) -> Image.Image:
    """An image whose colour identifies its class."""
    tint = np.array([(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)])[label % 4]
    return Image.fromarray((drawing(seed, width, height) * 0.3 + tint * 0.7).astype(np.uint8))


def make_tree(root: Path, train: int = 6, validation: int = 2, classes: int = 4, val: str = "val") -> Path:
    """SOURCE/train and SOURCE/val with the given number of JPEGs in each class."""
    for split, number in (("train", train), (val, validation)):
        for label, name in enumerate(CLASSES[:classes]):
            folder = root / split / name
            folder.mkdir(parents=True)
            for i in range(number):
                seed = 1000 * label + 10 * i + (split == "train")
                width, height = RANDOM_SIZES[seed % len(RANDOM_SIZES)]
                coloured(label, seed, width, height).save(folder / f"{split}_{i:03d}.JPEG", quality=90)
    return root


def odd_images() -> dict[str, Callable[[Path], None]]:
    """File names, and functions that write images of the unusual kinds: all of them can be packed."""
    rgb = Image.fromarray(drawing(1, 300, 280))
    deep = (drawing(2, 280, 260)[..., 0].astype(np.uint16) << 8) + 77
    exif = Image.Exif()
    exif[0x0112] = 6  # orientation
    return {
        "cmyk.JPEG": lambda path: rgb.convert("CMYK").save(path, "JPEG"),
        "grey.JPEG": lambda path: rgb.convert("L").save(path, "JPEG"),
        "palette.png": lambda path: rgb.quantize(32).save(path, transparency=0),
        "deep.png": lambda path: Image.fromarray(deep).save(path),
        "alpha.png": lambda path: rgb.convert("RGBA").save(path),
        "bits.png": lambda path: rgb.convert("1").save(path),
        "really_a_png.JPEG": lambda path: rgb.save(path, "PNG"),
        "rotated.JPEG": lambda path: rgb.save(path, "JPEG", exif=exif),
        "broken_exif.JPEG": lambda path: rgb.save(path, "JPEG", exif=b"Exif\0\0II*\0\xff\xff\xff\xff"),
        "long.JPEG": lambda path: rgb.resize((900, 20)).save(path, "JPEG"),
        "one_pixel.png": lambda path: rgb.resize((1, 1)).save(path),
    }


def broken_images() -> dict[str, Callable[[Path], None]]:
    """File names, and functions that write files that are no images."""

    def truncated(path: Path) -> None:
        coloured(0, 3, 300, 300).save(path, "JPEG")
        path.write_bytes(path.read_bytes()[:3000])

    def flipped(path: Path) -> None:
        coloured(0, 3, 300, 300).save(path, "PNG")
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 0x10
        path.write_bytes(content)

    return {
        "truncated.JPEG": truncated,
        "flipped.png": flipped,
        "empty.JPEG": lambda path: path.write_bytes(b""),
        "text.JPEG": lambda path: path.write_text("404 Not Found"),
        "floats.tiff": lambda path: Image.fromarray(np.ones((9, 9), np.float32)).save(path),
        "header_only.png": lambda path: path.write_bytes(b"\x89PNG\r\n\x1a\n"),
    }
