"""Staging: the content of a node's copy, its users, and that nothing is left of temporary copies."""

import json
import os
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from examples.training import stored, violated_claims
from job_folder import listing, prepared
from launch import BENCH, ROOT, Finished, mpirun, run_job
from msgspec.structs import replace
from sampled_parameters import slow

from hpcai.comm.grid import Coordinates, Group
from hpcai.comm.shutdown import Shutdown
from hpcai.comm.world import World
from hpcai.data import catalog, node_copies
from hpcai.data import staging as data_staging
from hpcai.data.bootstrap import sampler
from hpcai.data.pack.job import Options, pack
from hpcai.inputfile import Case
from hpcai.inputfile.split import Split
from hpcai.results.alterations import changed
from hpcai.results.claim import Subject

Json = dict[str, Any]

JOBS = ROOT / "tests" / "jobs"
FINGERPRINT = "0123456789abcdef" * 4
PLACE = f"hpcai-{os.getuid()}"
needs_mpirun = pytest.mark.skipif(mpirun() is None, reason="NO mpirun: STAGING NOT TESTED")
ENVIRONMENT = {"OMP_NUM_THREADS": "1"}


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The node's folder for copies."""
    place = tmp_path / "local"
    place.mkdir()
    monkeypatch.setenv("HPCAI_LOCAL", str(place))
    return place / PLACE


def copied(place: Path) -> list[str]:
    """The files of all copies in a folder."""
    return [name for name in listing(place) if "/files/" in name]


def packed(folder: Path, world: World) -> Path:
    """Six made-up images to train on in shards of one, and one for validation."""
    from PIL import Image

    if world.rank == 0:
        for name, numbers in {"train/a": range(3), "train/b": range(3), "val/a": range(1)}.items():
            (folder / "source" / name).mkdir(parents=True)
            for number in numbers:
                color = (30 * number, 7 * len(name), 200 * name.endswith("b"))
                Image.new("RGB", (256, 256), color).save(folder / "source" / name / f"{number}.png")
    world.comm.Barrier()
    assert pack(Options(folder / "source", folder / "set", 1, 0), world) == 0
    return folder / "set"


@pytest.mark.parallel(2)
def test_node_copies_the_shards_of_its_models_and_links_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rank is a node with a model of its own."""
    from mpi4py import MPI

    world = World(MPI.COMM_WORLD, MPI.COMM_SELF, "host")
    models, member = world.size, world.rank
    with TemporaryDirectory() as common, TemporaryDirectory() as local:
        folder = Path(world.comm.bcast(common))
        monkeypatch.setenv("HPCAI_LOCAL", local)
        settings = {"SAMPLES": 0, "CLASSES": 0, "RESOLUTION": 0, "SEED": 7, "SAMPLER": "multinomial", "STAGE": "local"}
        case = Case(1, "ensemble", {**settings, "DATASET": f"imagenet:{packed(folder, world)}"})
        comms = (MPI.COMM_SELF, MPI.COMM_SELF, MPI.COMM_WORLD, MPI.COMM_SELF, MPI.COMM_SELF)
        group = Group(models, 1, models, Coordinates(member, 0), *comms, *[MPI.COMM_SELF] * 2, Split(1, 1))
        with data_staging.staged(case, group, world, Shutdown(world.comm, 0)) as copy:
            assert copy and copy.dataset
            bag = sampler("multinomial", 6, 7, member, models).in_bag(0, 6)
            files = sorted(Path(local).glob("*/*/files/train-*"))
            original = catalog.open_for(case.settings)
            assert [not file.is_symlink() for file in files] == list(bag)
            assert np.array_equal(copy.dataset.train.images(np.arange(6)), original.train.images(np.arange(6)))
            nbytes = sum(file.stat().st_size for file in Path(local).glob("*/*/files/*") if not file.is_symlink())
            assert copy.measured.bytes == nbytes and copy.measured.nodes == 1
        assert listing(Path(local) / PLACE) == ["lock"]
        with data_staging.staged(case, group, world, Shutdown(world.comm, 1e-6)) as copy:  # the time is over
            assert copy and copy.dataset is None
            assert all(file.is_symlink() for file in Path(local).glob("*/*/files/*"))
        world.comm.Barrier()


def job(folder: Path, program: list[Any], settings: str, ranks: int = 2) -> Finished:
    """A small problem with these settings."""
    return run_job([*program, "--set", *settings.split()], ranks, prepared(folder), env=ENVIRONMENT)


def wrong(stage: str, changes: Json) -> list[str]:
    """The claims that a test of two nodes violates with these measurements."""
    copy = {"bytes": 8, "reused_bytes": 0, "nodes": 2, "seconds": 0.5, "kept": stage == "keep"} | changes
    staged = changed("raw.staging", copy), changed("raw.phases.staging", 0.5), changed("memory.data.data_bytes", 0)
    test = stored("ensemble")[1]
    wide = Subject(test.case, test.entry, replace(test.environment, nodes=2))
    return violated_claims(wide, *staged, changed("telemetry.nodes", 2), STAGE=stage)


def test_impossible_measurements_are_detected() -> None:
    assert wrong("local", {}) == wrong("keep", {"reused_bytes": 8}) == []
    assert wrong("none", {})[0] == "staging if, and only if, STAGE is not none"
    assert wrong("keep", {"kept": False}) == ["staging: kept if, and only if, STAGE is keep"]
    assert wrong("local", {"reused_bytes": 8}) == ["staging: only a kept copy is used again"]
    assert wrong("local", {"nodes": 4}) == ["staging: on nodes of the job"]
    assert wrong("local", {"seconds": 0.4}) == ["staging: phase = seconds"]
    assert wrong("local", {"bytes": 7}) == ["staging: one model needs the same bytes on every node"]


@pytest.mark.slow
@needs_mpirun
def test_data_are_copied_once_per_node_and_kept_on_request(local: Path, tmp_path: Path) -> None:
    finished = job(tmp_path, [BENCH], "STAGE=none,local,keep,keep", ranks=3)
    assert finished.returncode == 0, finished.stderr
    (path,) = tmp_path.glob("results/*/result.json")
    none, *tests = json.loads(path.read_text())["tests"]
    assert none["raw"]["staging"] is None and none["phases"]["staging"] is None
    nbytes = sum(file.stat().st_size for file in (tmp_path / "images").iterdir())
    found = [test["raw"]["staging"] for test in tests]
    assert [copy["bytes"] for copy in found] == [nbytes, nbytes, 0]
    assert [copy["reused_bytes"] for copy in found] == [0, 0, nbytes]
    assert [copy["kept"] for copy in found] == [False, True, True]
    assert all(test["scores"]["quality"] == none["scores"]["quality"] for test in tests)
    assert f"Staging : {nbytes} bytes copied, 0 bytes reused; nodes: 1; kept after the run" in finished.stdout
    assert len(copied(local)) == 4 and not any("-job-" in name for name in listing(local))
    assert run_job([BENCH, "--verify", path], None).returncode == 0


@pytest.mark.slow
@needs_mpirun
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("full", r"staging needs \d+ bytes in .*local/hpcai-\d+, 1000 are free"),
        pytest.param(
            "spoiled_later",
            r"the copy .*/files holds data of SHA-256 \w+; allowed: \w+, as .*images",
            marks=pytest.mark.exhaustive,
        ),
    ],
)
def test_a_copy_that_cannot_be_made_ends_the_job(local: Path, tmp_path: Path, fault: str, words: str) -> None:
    finished = job(tmp_path, [JOBS / "staging_faults.py", fault], "STAGE=local")
    assert (finished.returncode, finished.leftovers) == (3, [])
    assert re.fullmatch(f"hpcai: .*{words}.*\n", finished.stderr), finished.stderr
    assert listing(local) == ["lock"]


@needs_mpirun
@pytest.mark.parametrize(("how", "left"), slow([("kill", True)], [("raise", False), ("kill", True)]))
def test_copies_left_by_a_job_that_breaks_off_are_removed_by_the_next(
    local: Path, tmp_path: Path, how: str, left: bool
) -> None:
    finished = job(tmp_path, [JOBS / "failing.py", "1", "training", "2", how], "STAGE=local")
    assert finished.returncode != 0 and finished.leftovers == []
    assert bool(copied(local)) == left
    node_copies.claim(FINGERPRINT, keep=False).close()
    assert listing(local) == ["lock"]
