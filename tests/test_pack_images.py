"""The packer's treatment of images: the unusual kinds of ImageNet, and files that are no images."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from image_tree import CLASSES, broken_images, drawing, make_tree, odd_images
from launch import run_job
from PIL import Image

from hpcai.data.pack import images
from hpcai.errors import DataError

SMALL = ("--shard-bytes", str(5 * 256 * 256 * 3))  # five images


def pack(*arguments):
    return run_job(["-m", "hpcai.data.pack", *map(str, arguments)], None)


def test_odd_images_are_packed_and_broken_ones_refused_by_name(tmp_path):
    folder = make_tree(tmp_path / "tree", train=1, classes=2) / "train" / CLASSES[0]
    for name, save in {**odd_images(), **broken_images()}.items():
        save(folder / name)
    (folder / "readme.txt").write_text("no image, and not called one")
    (folder / "._resource.JPEG").write_bytes(b"what archives leave")
    target, bad = tmp_path / "set", len(broken_images())
    refused = pack(tmp_path / "tree", target, *SMALL)
    assert refused.returncode == 1 and f"{bad} images refused, 0 allowed" in refused.stderr
    assert not (target / "index.json").exists()
    lines = (target / "refused.txt").read_text().splitlines()
    reasons = dict(line.removeprefix(f"train/{CLASSES[0]}/").split(": ", 1) for line in lines)
    assert reasons.keys() == broken_images().keys() and all(reasons.values())
    assert (reasons["empty.JPEG"], "truncated" in reasons["truncated.JPEG"]) == ("empty file", True)
    before = {name: (target / name).stat().st_mtime_ns for name in os.listdir(target) if name.endswith(".h5")}
    allowed = pack(tmp_path / "tree", target, *SMALL, "--allow-refused", bad)
    assert allowed.returncode == 0, allowed.stderr
    assert {name: (target / name).stat().st_mtime_ns for name in before} == before  # nothing was made again
    index = json.loads((target / "index.json").read_text())
    assert (index["refused"], sum(entry["samples"] for entry in index["train"])) == (bad, 2 + len(odd_images()))
    assert pack("--check", target).returncode == 0


def saved(folder: Path, name: str) -> np.ndarray:
    odd_images()[name](folder / name)
    return images.read(folder / name).astype(int)


def test_odd_images_are_decoded_correctly(tmp_path):
    whole = Image.fromarray(drawing(1, 300, 280)).resize((256, 256), Image.Resampling.BILINEAR, (10, 0, 290, 280))
    expected = np.asarray(whole).astype(int)
    near = {"cmyk.JPEG": 12, "palette.png": 30, "alpha.png": 0, "really_a_png.JPEG": 0, "rotated.JPEG": 4}
    for name, tolerance in near.items():
        assert np.abs(saved(tmp_path, name) - expected).mean() <= tolerance, name
    grey = saved(tmp_path, "grey.JPEG")
    assert (
        np.array_equal(grey[..., 0], grey[..., 2])
        and np.abs(grey.mean(2) - expected @ (0.299, 0.587, 0.114)).mean() < 4
    )
    deep, upper = saved(tmp_path, "deep.png")[..., 0], drawing(2, 280, 260)[..., 0]
    assert (
        np.abs(deep - np.asarray(Image.fromarray(upper).resize((256, 256), 2, (10, 0, 270, 260))).astype(int)).max()
        <= 1
    )
    assert {*saved(tmp_path, "bits.png").ravel()} >= {0, 255}


def test_the_middle_square_is_kept(tmp_path):
    pixels = np.zeros((256, 300, 3), np.uint8)
    pixels[:, 22:278] = drawing(3, 256, 256)
    for name, array in (("wide.png", pixels), ("tall.png", pixels.transpose(1, 0, 2))):
        Image.fromarray(array).save(tmp_path / name)
        assert np.array_equal(
            images.read(tmp_path / name), array[:256, 22:278] if name == "wide.png" else array[22:278]
        )


def test_a_file_that_cannot_be_read_is_an_error_and_not_a_refused_image(tmp_path):
    with pytest.raises(DataError, match="gone.JPEG cannot be read"):
        images.read(tmp_path / "gone.JPEG")
