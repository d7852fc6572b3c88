"""Command that draws a frame of a file in the published layout: `python -P -m hpcai.data.show FILE FRAME --png OUT`.

Boxes of the file are solid lines; predictions are dashed and have their scores. `--predictions FILE` names an HDF5
file with a data set `detections`, float32[frames, n, 6], rows [ymin, xmin, ymax, xmax, score, class]; rows with a
negative score are unused. If it contains `moments`, int32[frames, 2], these are year and step of each frame, and the
frame of the file's year is drawn. The attribute `classes` maps its classes to those of the published layout. If its
`boxes`, by which the predictions were evaluated, differ from those of the frame, a warning is printed. matplotlib is
an optional extra (`pip install .[plots]`).
"""

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hpcai.data.weather import layout as channel
from hpcai.data.weather.box_cleaning import cleaned
from hpcai.detections.detection_tables import BOXES, CLASSES, DETECTIONS, MOMENTS
from hpcai.errors import DataError, HpcaiError, InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("tab:orange", "tab:red", "white", "tab:pink")  # of the classes
SHOWN = 0.3  # default of the least score that is drawn
FOREIGN = "the frame is of another year, grid or seed"
NAMED = 8  # frames at most that are listed if the requested one is missing
_NAME = re.compile(r"climo_(\d{4})\.h5")
Numbers = NDArray[np.floating[Any]]


def main(arguments: Sequence[str]) -> int:
    """The exit code: 0, 2 if the request is illegal or matplotlib is missing, 3 if a file cannot be read."""
    parser = argparse.ArgumentParser(
        prog="python -P -m hpcai.data.show", description="Draw a frame of weather with its boxes."
    )
    parser.add_argument("file", type=Path, help="a file in the published layout, climo_YYYY.h5")
    parser.add_argument("frame", type=int, help="number of the frame, from 0")
    parser.add_argument("--png", type=Path, required=True, help="the image to write")
    parser.add_argument("--predictions", type=Path, help="HDF5 file with detections of these frames")
    parser.add_argument("--score", type=float, default=SHOWN, help=f"least score of a detection drawn [{SHOWN}]")
    options = parser.parse_args(arguments)
    try:
        fields, boxes = read(options.file, options.frame)
        detections: Numbers = np.empty((0, 6))
        if options.predictions:
            row = place(options.predictions, options.file, options.frame)
            detections = read_detections(options.predictions, row)
            if not evaluated_by(options.predictions, row, boxes, fields.shape[1:]):
                print(f"hpcai: {options.predictions} was evaluated by other boxes: {FOREIGN}", file=sys.stderr)
        title = f"{options.file.name}, frame {options.frame}"
        draw(options.png, title, fields, boxes, detections[detections[:, 4] >= options.score])
    except HpcaiError as error:
        print(f"hpcai: {error}", file=sys.stderr)
        return error.exit_code
    print(options.png)
    return 0


def read(path: Path, frame: int) -> tuple[Numbers, NDArray[np.int32]]:
    """Fields float32[16, H, W] and used boxes int32[n, 5] of a frame; InputError if there is no such frame."""
    fields, boxes = _row(path, channel.IMAGES, frame), _row(path, channel.RECTANGLES, frame)
    return fields, boxes[boxes[:, 4] >= 0]


def place(predictions: Path, file: Path, frame: int) -> int:
    """Row of the predictions of a frame; the number of the frame unless the predictions have year and step.

    InputError if there is no such frame, or no year in the file's name.
    """
    moments = _moments(predictions)
    if moments is None:
        return frame
    named = _NAME.fullmatch(file.name)
    if named is None:
        raise InputError(f"{predictions} identifies frames by year, {file} does not; allowed: a file climo_YYYY.h5")
    found = np.flatnonzero((moments == (int(named[1]), frame)).all(1))
    if len(found) == 0:
        raise InputError(f"{predictions} has no frame {frame} of {named[1]}; {_there(moments, int(named[1]), frame)}")
    return int(found[0])


def _moments(path: Path) -> NDArray[np.int32] | None:
    """Year and step of each frame, int32[frames, 2]; None if the frames are those of the file, in its order."""
    import h5py

    with _readable(path), h5py.File(path) as file:
        moments = np.asarray(file[MOMENTS]) if MOMENTS in file else None
    if moments is not None and (moments.ndim != 2 or moments.shape[1] != 2):
        raise DataError(f"{path}: {MOMENTS} has the shape {moments.shape}; allowed: (frames, 2)")
    return moments


def _there(moments: NDArray[np.int32], year: int, frame: int) -> str:
    """The existing frames, in words: those of the year nearest to `frame`, else the years."""
    steps = np.unique(moments[moments[:, 0] == year, 1])
    if len(steps) == 0:
        return f"allowed: frames of {', '.join(map(str, np.unique(moments[:, 0])))}"
    near = np.sort(steps[np.argsort(abs(steps - frame), kind="stable")[:NAMED]])
    words = ", ".join(map(str, near))
    return f"allowed: {words}" + (f" and {len(steps) - len(near)} others of that year" if len(steps) > NAMED else "")


def read_detections(path: Path, frame: int) -> Numbers:
    """Detections [ymin, xmin, ymax, xmax, score, class] of a row, float32[n, 6], with published classes."""
    rows = _row(path, DETECTIONS, frame)
    if rows.ndim != 2 or rows.shape[1] != 6:
        raise DataError(f"{path}: {DETECTIONS} has rows of shape {rows.shape}; allowed: (n, 6)")
    used = rows[rows[:, 4] >= 0]
    numbers = _classes(path)
    if not np.isin(used[:, 5], np.arange(len(numbers))).all():
        raise DataError(f"{path}: {DETECTIONS} of frame {frame} are of a class that is none of 0 to {len(numbers) - 1}")
    used[:, 5] = numbers[used[:, 5].astype(int)]
    return used


def evaluated_by(predictions: Path, row: int, boxes: NDArray[np.int32], grid: tuple[int, ...]) -> bool:
    """Whether the predictions of a row were evaluated by the boxes int32[n, 5] of a frame; grid: height, width.

    Compared after cleaning, for the classes of the detector; True if the predictions contain no boxes.
    """
    import h5py

    with _readable(predictions), h5py.File(predictions) as file:
        if BOXES not in file:
            return True
        stored = np.asarray(file[BOXES][row])
    numbers, (height, width) = _classes(predictions), grid
    stored = stored[stored[:, 4] >= 0]
    stored[:, 4] = numbers[stored[:, 4]]
    own = cleaned(boxes[None], height, width)[0][0]
    return sorted(own[np.isin(own[:, 4], numbers)].tolist()) == sorted(stored.tolist())


def _classes(path: Path) -> NDArray[np.int64]:
    """Published number of each class of the predictions; the same number unless the file says otherwise."""
    import h5py

    with _readable(path), h5py.File(path) as file:
        return np.asarray(file.attrs.get(CLASSES, range(len(channel.CLASSES))), np.int64)


def _row(path: Path, name: str, frame: int) -> NDArray[Any]:
    import h5py

    with _readable(path), h5py.File(path) as file:
        if name not in file:
            raise DataError(f"{path} has no data set {name}; allowed: a file in the published layout")
        if not 0 <= frame < len(file[name]):
            raise InputError(f"frame {frame} of {path}; allowed: 0 to {len(file[name]) - 1}")
        return np.asarray(file[name][frame])


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn an OSError inside the block into a DataError."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}") from error


def draw(path: Path, title: str, fields: Numbers, boxes: NDArray[np.int32], detections: Numbers) -> None:
    """Four panels, the first row at the bottom: pressure, water, wind and rain. InputError without matplotlib."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError(f"images need matplotlib ({error}): pip install matplotlib") from None
    figure = Figure(figsize=(13, 9), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(f"{title}: {len(boxes)} boxes, {len(detections)} detections")
    for place, (name, values, colours) in enumerate(_panels(fields), 1):
        axes = figure.add_subplot(2, 2, place)
        figure.colorbar(axes.imshow(values, cmap=colours, origin="lower"), ax=axes, shrink=0.6)
        axes.set_title(name, fontsize="medium")
        _mark(axes, boxes, detections)
    try:
        figure.savefig(path, dpi=110)
    except OSError as error:
        raise InputError(f"cannot write {path.absolute()}: {error.strerror}") from None


def _panels(fields: Numbers) -> list[tuple[str, Numbers, str]]:
    east, north = fields[channel.U850], fields[channel.V850]
    return [
        ("PSL, hPa", fields[channel.PSL] / 100, "viridis"),
        ("TMQ, kg/m2", fields[channel.TMQ], "cividis"),
        ("wind at 850 hPa, m/s", np.hypot(east, north), "magma"),
        ("PRECT, mm/day", fields[channel.PRECT] * 8.64e7, "cividis"),
    ]


def _mark(axes: "Axes", boxes: NDArray[np.int32], detections: Numbers) -> None:
    from matplotlib.patches import Rectangle

    found = [(row[:4], int(row[4]), "-", channel.CLASSES[int(row[4]) % len(COLOURS)], "bottom") for row in boxes]
    found += [(row[:4], int(row[5]), "--", f"{row[4]:.2f}", "top") for row in detections]
    for (ymin, xmin, ymax, xmax), number, style, text, aligned in found:
        colour = COLOURS[number % len(COLOURS)]
        corner = float(xmin) - 0.5, float(ymin) - 0.5
        box = Rectangle(corner, float(xmax - xmin), float(ymax - ymin), fill=False, color=colour, linestyle=style)
        axes.add_patch(box)
        beside = (float(xmin), float(ymax)) if aligned == "bottom" else corner
        axes.annotate(text, beside, color=colour, fontsize="x-small", verticalalignment=aligned)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
