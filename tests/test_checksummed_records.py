"""Records of a file: their file is closed with them, and an interpreter that ends prints nothing."""

import os
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
from launch import ROOT

from hpcai.data.checksummed_records import ChecksummedRecords

DATA = b"12345678"
KEPT = """
import os, sys
from pathlib import Path
from test_checksummed_records import opened
os.kept = opened(Path(sys.argv[1]))  # until the last modules are taken down
"""


def opened(path: Path) -> ChecksummedRecords:
    path.write_bytes(DATA)
    records = ChecksummedRecords(path, 0, np.array([zlib.crc32(DATA)], np.uint32), str, "check")
    records.read(0, memoryview(bytearray(len(DATA))))
    return records


def test_the_file_is_closed_with_its_records(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    records = opened(tmp_path / "shard")
    assert len(os.listdir("/proc/self/fd")) == before + 1
    del records
    assert len(os.listdir("/proc/self/fd")) == before


def test_an_interpreter_that_ends_with_an_open_file_prints_nothing(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    command = [sys.executable, "-c", KEPT, str(tmp_path / "shard")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""
