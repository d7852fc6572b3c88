"""The detections of an ensemble, collected and written; and not written if the run is to end."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_detections import CLASSES, drawn
from tiny import CPU, alone, unending

from hpcai.detections import detection_tables
from hpcai.detections.coco_evaluation import average_precision, matched
from hpcai.train.detector_ensemble import Fused, FusedQuality
from hpcai.workloads.weather import detections_file, measure

NOTHING = FusedQuality((), (), (), 0.0, 0, 0, ())
ABOUT = detection_tables.Metadata((0, 1, 2, 3))


def part(made: Any, frames: list[int]) -> Fused:
    """The results on a rank."""
    return Fused(frames, [made.detections[k] for k in frames], [made.truths[k] for k in frames])


@pytest.mark.parallel(3)
def test_the_file_does_not_depend_on_the_division_of_the_frames() -> None:
    import tempfile

    from mpi4py import MPI

    world, made = MPI.COMM_WORLD, drawn(5, 20)
    path = Path(world.bcast(tempfile.mkdtemp() if world.rank == 0 else "")) / "x.h5"
    shares = (
        list(range(world.rank, 20, world.size)),
        list(range(world.rank, 20, world.size))[::-1],
        list(range(20)) if world.rank == world.size - 1 else [],
    )
    digests = [detections_file.write(part(made, frames), 20, path, ABOUT, world) for frames in shares]
    assert len({digest for own in world.allgather(digests) for digest in own}) == 1
    tables, _ = detection_tables.read(path, 20)
    assert detection_tables.digest(tables) == digests[0]
    assert all(map(np.array_equal, detection_tables.used(tables.detections), made.detections))
    assert np.array_equal(tables.boxes, np.array(made.truths))
    less = detections_file.write(part(made, shares[0][: -1 if world.rank == 0 else None]), 20, path, ABOUT, world)
    assert less != digests[0]
    world.Barrier()


class Shutdown:
    """A run that was asked to end."""

    def agreed(self, comm: Any) -> bool:
        return True


@pytest.mark.parametrize(("shutdown", "there"), [(Shutdown(), []), (unending(), ["detections-4.h5"])])
def test_nothing_is_written_if_the_run_is_to_end(
    shutdown: Any, there: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The detections until then are those of a part of the frames."""
    from test_objective import detecting

    trained = detecting(alone(), 8)
    found = part(drawn(1, 3), [0, 1, 2])
    monkeypatch.setattr(measure.detector_ensemble, "evaluate", lambda *_: (NOTHING, found))
    trained.validation.shard = type("Shard", (), {"n": 3})()
    measure.Detection(tmp_path, 4).evaluate(trained, alone(), shutdown)
    assert [path.name for path in tmp_path.iterdir()] == there
    assert trained.state.device == CPU


@given(st.integers(0, 2**32), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_a_smaller_required_overlap_never_lowers_the_precision(seed: int, one: float, other: float) -> None:
    """The verification relies on it."""
    made, (loose, tight) = drawn(seed, 8), sorted((one, other))
    of = [average_precision(matched(range(8), *made, overlap, CLASSES)) for overlap in (loose, tight)]
    assert (np.nan_to_num(of[0]) >= np.nan_to_num(of[1])).all()
