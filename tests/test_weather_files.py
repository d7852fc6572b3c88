"""Files of generated weather in the published layout, by any number of ranks; plots of their frames."""

import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from launch import ROOT, run_job

from hpcai.data import show
from hpcai.data.generate import Files, write
from hpcai.data.weather.generated import Maker, formula
from hpcai.data.weather.layout import EXTRATROPICAL_CYCLONE, file_name
from hpcai.detections import detection_tables
from hpcai.errors import DataError, InputError

SMALL = ("--height", "48", "--width", "80", "--frames", "5", "--chunk-frames", "3", "--seed", "7")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Three years by two ranks."""
    folder = tmp_path_factory.mktemp("years") / "new"
    job = run_job(["-m", "hpcai.data.generate", folder, "--years", "3", "--first", "1999", *SMALL], 2)
    assert job.returncode == 0, job.stderr
    assert "3 years from 1999" in job.stdout
    return folder


@pytest.mark.slow
def test_files_have_the_published_layout(made):
    assert sorted(path.name for path in made.iterdir()) == [file_name(year) for year in (1999, 2000, 2001)]
    with h5py.File(made / "climo_2000.h5") as file:
        images, boxes = file["images"], file["boxes"]
        assert (images.shape, images.dtype, images.chunks) == ((5, 16, 48, 80), np.float32, (3, 1, 3, 5))
        assert (boxes.shape, boxes.dtype, images.compression) == ((5, 15, 5), np.int32, "gzip")
        maker, out = Maker(formula(4, 48, 80, 7)), np.empty((16, 48, 80), np.float32)
        for t in range(5):
            assert np.array_equal(boxes[t], maker.make(2000, t, out))
            assert np.array_equal(images[t], out)


@pytest.mark.slow
def test_complete_years_are_kept_and_others_refused(made, tmp_path):
    path, files = made / "climo_1999.h5", Files(made, formula(4, 48, 80, 7), 5, 2)
    before = path.stat().st_mtime_ns
    assert write(files, 1999) == path and path.stat().st_mtime_ns == before
    with pytest.raises(InputError, match="allowed: an empty folder"):
        write(Files(made, formula(4, 48, 80, 8), 5, 2), 1999)
    (tmp_path / "climo_1999.h5.part").write_bytes(b"left by a job that was killed")
    write(Files(tmp_path, files.formula, 1, 46), 1999)
    assert [path.name for path in tmp_path.iterdir()] == ["climo_1999.h5"]


@pytest.mark.parametrize(
    "wrong", [("--height", "47"), ("--classes", "3"), ("--years", "0"), ("--frames", "1461"), ("--seed", "-1")]
)
def test_illegal_options_end_with_exit_code_2(tmp_path, wrong):
    job = run_job(["-m", "hpcai.data.generate", tmp_path, *SMALL, *wrong], None)
    assert job.returncode == 2 and "allowed" in job.stderr and "Traceback" not in job.stderr
    assert not list(tmp_path.glob("*.h5"))


def draw(*arguments):
    program = [sys.executable, "-m", "hpcai.data.show", *map(str, arguments)]
    return subprocess.run(program, cwd=ROOT, capture_output=True, text=True)


@pytest.mark.slow
def test_command_draws_a_frame_with_predictions(made, tmp_path):
    detections = np.full((5, 100, 6), -1, np.float32)
    detections[2, 0] = 10, 20, 30, 40, 0.9, 1
    with h5py.File(tmp_path / "found.h5", "w") as file:
        file["detections"] = detections
    plot = tmp_path / "frame.png"
    drawn = draw(made / "climo_1999.h5", 2, "--png", plot, "--predictions", tmp_path / "found.h5")
    assert drawn.returncode == 0, drawn.stderr
    assert drawn.stdout.strip() == str(plot)
    assert plot.read_bytes().startswith(b"\x89PNG") and plot.stat().st_size > 20_000


@pytest.fixture
def of_moments(tmp_path):
    """Predictions of three generated frames of a run; each with a detection whose score identifies its row."""
    found = detection_tables.empty(3)
    found.detections[:, 0] = [(10, 20, 30, 40, score, 1) for score in (0.5, 0.6, 0.7)]
    path = tmp_path / detection_tables.name(4)
    moments = np.array([[2000, 3], [1999, 2], [2000, 0]], np.int32)
    detection_tables.write(path, found, detection_tables.Metadata((1, 2), moments))
    return path


@pytest.mark.parametrize(("year", "frame", "score"), [(2000, 3, 0.5), (1999, 2, 0.6), (2000, 0, 0.7)])
def test_the_generated_frame_of_the_given_year_and_step_is_drawn(
    made, of_moments, tmp_path, monkeypatch, year, frame, score
):
    drawn = []
    monkeypatch.setattr(show, "draw", lambda *arguments: drawn.append(arguments[-1]))
    arguments = made / file_name(year), frame, "--png", tmp_path / "x.png", "--predictions", of_moments
    assert show.main([*map(str, arguments)]) == 0
    assert drawn[0][:, 4] == pytest.approx([score])
    assert drawn[0][:, 5] == [EXTRATROPICAL_CYCLONE]  # the second of the detector's two classes


def test_predictions_evaluated_by_other_boxes_are_reported(made, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(show, "draw", lambda *arguments: None)
    with h5py.File(made / "climo_2000.h5") as file:
        boxes = file["boxes"][3]
    own, found = boxes[np.isin(boxes[:, 4], (1, 2))], detection_tables.empty(1)
    found.boxes[0, : len(own)] = own - np.array([0, 0, 0, 0, 1])
    assert 0 < len(own) < np.count_nonzero(boxes[:, 4] >= 0)
    path = tmp_path / detection_tables.name(1)
    arguments = [str(made / "climo_2000.h5"), "3", "--png", str(tmp_path / "x.png"), "--predictions", str(path)]
    about = detection_tables.Metadata((1, 2), np.array([[2000, 3]], np.int32))
    detection_tables.write(path, found, about)
    assert show.main(arguments) == 0 and capsys.readouterr().err == ""
    found.boxes[0, 0, 1] += 1
    detection_tables.write(path, found, about)
    assert show.main(arguments) == 0
    assert "was evaluated by other boxes: the frame is of another year, grid or seed" in capsys.readouterr().err


def test_a_frame_without_predictions_is_refused_with_the_predicted_ones(made, of_moments, tmp_path, capsys):
    for frame, year, words in [
        (1, 2000, "has no frame 1 of 2000; allowed: 0, 3"),
        (2, 2001, "allowed: frames of 1999, 2000"),
    ]:
        arguments = made / file_name(year), frame, "--png", tmp_path / "x.png", "--predictions", of_moments
        assert show.main([*map(str, arguments)]) == 2
        assert words in capsys.readouterr().err
    with pytest.raises(InputError, match=r"allowed: a file climo_YYYY.h5"):
        show.place(of_moments, tmp_path / "frames.h5", 0)
    many = np.column_stack([np.full(20, 1980), np.arange(20) * 73]).astype(np.int32)
    detection_tables.write(of_moments, detection_tables.empty(20), detection_tables.Metadata((1, 2), many))
    with pytest.raises(InputError, match=r"allowed: 438, 511, .*, 949 and 12 others of that year$"):
        show.place(of_moments, tmp_path / "climo_1980.h5", 700)


def test_boxes_and_detections_are_drawn_at_their_places():
    from matplotlib.figure import Figure

    axes = Figure().add_subplot()
    show._mark(axes, np.array([[10, 20, 30, 60, 2]]), np.array([[1, 2, 5, 9, 0.75, 1]], np.float32))
    box, detection = axes.patches
    assert (box.get_xy(), box.get_width(), box.get_height(), box.get_linestyle()) == ((19.5, 9.5), 40, 20, "-")
    assert (detection.get_xy(), detection.get_width(), detection.get_linestyle()) == ((1.5, 0.5), 7, "--")
    assert [text.get_text() for text in axes.texts] == ["extratropical cyclone", "0.75"]


@pytest.mark.slow
def test_frames_that_cannot_be_drawn_are_refused_in_one_line(made, tmp_path):
    file = made / "climo_1999.h5"
    for arguments, code in [((file, 5), 2), ((file, -1), 2), ((tmp_path / "none.h5", 0), 3)]:
        drawn = draw(*arguments, "--png", tmp_path / "x.png")
        assert drawn.returncode == code and len(drawn.stderr.strip().splitlines()) == 1, drawn.stderr
    with pytest.raises(DataError, match="no data set detections"):
        show.read_detections(Path(file), 0)
    found = detection_tables.empty(1)
    found.detections[0, 0] = 10, 20, 30, 40, 0.5, 2
    detection_tables.write(tmp_path / "found.h5", found, detection_tables.Metadata((1, 2)))
    with pytest.raises(DataError, match="a class that is none of 0 to 1"):
        show.read_detections(tmp_path / "found.h5", 0)
