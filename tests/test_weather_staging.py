"""Staging of climate fields: a node's copy contains the needed files and is the same dataset."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from weather_files import write_years

from hpcai.comm.grid import Coordinates, Group
from hpcai.comm.shutdown import Shutdown
from hpcai.comm.world import World
from hpcai.data import catalog, staging
from hpcai.data.bootstrap import sampler
from hpcai.data.weather.weather_packing import pack
from hpcai.inputfile import Case
from hpcai.inputfile.split import Split

SETTINGS = {"SAMPLES": 0, "CLASSES": 0, "RESOLUTION": 0, "SEED": 7, "SAMPLER": "multinomial", "STAGE": "local"}
FRAMES = 19  # for training


def check_copy(case: Case, world: World, local: Path) -> None:
    """Each rank is a node with a model of its own, and copies the files of that model."""
    from mpi4py import MPI

    group = Group(
        *(world.size, 1, world.size, Coordinates(world.rank, 0), world.node, world.node, world.comm),
        *[MPI.COMM_SELF] * 4,
        divided=Split(1, 1),
    )
    with staging.staged(case, group, world, Shutdown(world.comm, 0)) as copy:
        assert copy and copy.dataset
        original = catalog.open_weather_for(case.settings)
        assert copy.dataset.fingerprint == original.fingerprint
        assert str(local) in copy.dataset.source
        everything = np.arange(FRAMES)
        assert np.array_equal(copy.dataset.train.frames(everything), original.train.frames(everything))
        bag = sampler("multinomial", FRAMES, 7, world.rank, world.size).in_bag(0, FRAMES)
        needed = {file.name for file in catalog.files(case["DATASET"], 0, bag)}
        files = [*local.glob("*/*/files/*")]
        assert {file.name for file in files if not file.is_symlink()} == needed
        assert {file.name for file in files} == {file.name for file in catalog.files(case["DATASET"])}
    assert not [*local.glob("*/*/files")]


@pytest.mark.parallel(2)
def test_a_copy_of_published_or_packed_files_is_the_same_dataset(monkeypatch: pytest.MonkeyPatch) -> None:
    from mpi4py import MPI

    world = World(MPI.COMM_WORLD, MPI.COMM_SELF, "host")
    with TemporaryDirectory() as common, TemporaryDirectory() as local:
        folder = Path(world.comm.bcast(common))
        monkeypatch.setenv("HPCAI_LOCAL", local)
        if world.rank == 0:
            write_years(folder / "years")
        world.comm.Barrier()
        assert pack(folder / "years", folder / "set", 1, world) == 0
        for place in ("years", "set"):
            case = Case(1, "weather", {**SETTINGS, "DATASET": f"extremeweather:{folder / place}"})
            check_copy(case, world, Path(local))
        world.comm.Barrier()
