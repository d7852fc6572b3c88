"""Machine code is kept, and made anew when any source that is compiled into it has changed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from launch import ROOT

PROGRAM = """
import numpy as np
from hpcai.kernels.normalise import numba_cpu
one = np.ones(1, np.float32)
print(numba_cpu.normalise(np.ones((1, 1, 1, 1), np.uint8), one, one)[0, 0, 0, 0])
print(sum(numba_cpu._normalise.stats.cache_hits.values()))
"""


def copied(folder: Path) -> Path:
    shutil.copytree(ROOT / "kernels", folder / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "hpcai").mkdir()
    for name in ("__init__.py", "kernels.py"):
        shutil.copy(ROOT / "hpcai" / name, folder / "hpcai")
    return folder


def ran(folder: Path, **environment: str) -> list[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    command, changed = [sys.executable, "-c", PROGRAM], {**inherited, **environment}
    return subprocess.run(command, cwd=folder, env=changed, capture_output=True, text=True, check=True).stdout.split()


def test_what_was_compiled_is_used_again_until_any_source_changes(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    assert ran(folder) == ["2.0", "0"]
    assert ran(folder) == ["2.0", "1"]
    spec = folder / "kernels" / "spec.py"
    spec.write_text(spec.read_text() + "# another line\n")
    assert ran(folder) == ["2.0", "0"]


def test_it_is_kept_where_the_user_says(tmp_path: Path) -> None:
    folder, kept = copied(tmp_path / "checkout"), tmp_path / "kept"
    assert ran(folder, NUMBA_CACHE_DIR=str(kept))[1] == "0"
    assert [*kept.glob("numba-*/**/*.nbi")]
    assert ran(folder, NUMBA_CACHE_DIR=str(kept))[1] == "1"
    assert not [*(folder / "kernels").rglob("*.nbi")]
