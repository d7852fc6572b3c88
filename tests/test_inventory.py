"""The description of the machine: true, JSON, and of constant size."""

import json
import os
import platform
from dataclasses import asdict
from importlib import metadata
from pathlib import Path

import pytest

from hpcai.machine import inventory


def test_memory_is_at_most_that_of_the_kernel() -> None:
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    total = int(lines["MemTotal"].split()[0]) * 1024
    assert 2**26 < inventory.memory_bytes() <= total


def test_processor_is_named() -> None:
    name = inventory.processor()
    assert name and name == name.strip() and "\n" not in name
    assert name in Path("/proc/cpuinfo").read_text() or name == platform.machine()


def test_versions_are_the_installed_ones() -> None:
    import h5py
    import torch

    found = inventory.versions()
    assert set(found) == set(inventory.PACKAGES)
    assert found["h5py"] == h5py.__version__
    assert torch.__version__.startswith(found["torch"].split("+")[0])
    assert all(found[name] == metadata.version(name) for name in found)


def test_environment_is_json_and_contains_the_given_names() -> None:
    found = asdict(inventory.inventory("MPICH Version: 5.0.2", "cpu"))
    assert json.loads(json.dumps(found)) == found
    assert found["mpi"] == "MPICH Version: 5.0.2" and found["device"] == "cpu"
    assert found["cpus"] == os.cpu_count() and found["python"] == platform.python_version()


def test_libraries_of_a_gpu_are_listed_with_the_packages() -> None:
    plain, found = (inventory.inventory("MPI", "x", more).packages for more in (None, {"driver": "unknown"}))
    assert found == {**plain, "driver": "unknown"}


@pytest.mark.parametrize("model", ["", "model name\t: Example 9000 @ 2.0GHz\nflags : x\nmodel name\t: other\n"])
def test_processor_without_a_model_name_is_its_architecture(monkeypatch: pytest.MonkeyPatch, model: str) -> None:
    monkeypatch.setattr(Path, "read_text", lambda self: model)
    assert inventory.processor() == ("Example 9000 @ 2.0GHz" if model else platform.machine())
