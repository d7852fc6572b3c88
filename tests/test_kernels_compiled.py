"""Machine code is kept, and compiled again when any of its sources has changed."""

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from checkout import copy_kernels
from sampled_parameters import one_in

PROGRAM = """
import numpy as np
from hpcai.kernels.normalise import numba_cpu
one = np.ones(1, np.float32)
print(numba_cpu.normalise(np.ones((1, 1, 1, 1), np.uint8), one, one)[0, 0, 0, 0])
print(sum(numba_cpu._normalise.stats.cache_hits.values()))
"""


def no_room() -> None:
    """Files cannot grow from now on, as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def ran(
    folder: Path, before: Callable[[], None] | None = None, program: str = PROGRAM, **environment: str
) -> list[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    # -B: Python's own cache would not see changes of the same second and length
    command, changed = [sys.executable, "-B", "-c", program], {**inherited, **environment}
    ended = subprocess.run(
        command, cwd=folder, env=changed, capture_output=True, text=True, check=True, preexec_fn=before
    )
    return ended.stdout.split()


def test_compiled_code_is_reused_until_any_source_is_changed(tmp_path: Path) -> None:
    folder = copy_kernels(tmp_path)
    assert ran(folder) == ["2.0", "0"]
    assert ran(folder) == ["2.0", "1"]
    spec = folder / "kernels" / "spec.py"
    spec.write_text(spec.read_text() + "# another line\n")
    assert ran(folder) == ["2.0", "0"]


ELSEWHERE = """
from hpcai.kernels.cpu.compiled import compiled
from constants import FACTOR

@compiled
def product(number):
    return FACTOR * number
"""


def test_code_of_other_folders_is_compiled_again_when_a_neighbouring_file_changes(tmp_path: Path) -> None:
    folder = copy_kernels(tmp_path)
    (folder / "elsewhere.py").write_text(ELSEWHERE)
    program = "import elsewhere; print(elsewhere.product(7), sum(elsewhere.product.stats.cache_hits.values()))"
    for factor, hits in ((2, "0"), (2, "1"), (3, "0")):
        (folder / "constants.py").write_text(f"FACTOR = {factor}\n")
        assert ran(folder, program=program) == [str(7 * factor), hits]


def test_code_is_kept_in_the_users_folder(tmp_path: Path) -> None:
    folder, kept = copy_kernels(tmp_path / "checkout"), tmp_path / "kept"
    assert ran(folder, NUMBA_CACHE_DIR=str(kept))[1] == "0"
    assert [*kept.glob("numba-*/**/*.nbi")]
    assert ran(folder, NUMBA_CACHE_DIR=str(kept))[1] == "1"
    assert not [*(folder / "kernels").rglob("*.nbi")]


def test_copies_of_the_checkout_share_compiled_code(tmp_path: Path) -> None:
    kept = str(tmp_path / "kept")
    assert [ran(copy_kernels(tmp_path / name), NUMBA_CACHE_DIR=kept)[1] for name in ("one", "other")] == ["0", "1"]


LATER = [pytest.param(damage, marks=pytest.mark.slow) for damage in (lambda data: b"", lambda data: b"nothing")]


@pytest.mark.parametrize("kind", one_in(2, ["nbi", "nbc"]))
@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], *LATER])
def test_damaged_code_is_compiled_again(kind: str, damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    folder = copy_kernels(tmp_path)
    ran(folder)
    for path in (folder / "kernels").rglob(f"*.{kind}"):
        path.write_bytes(damage(path.read_bytes()))
    assert ran(folder) == ["2.0", "0"]
    assert ran(folder) == ["2.0", "1"]


def test_code_is_used_but_not_kept_without_room(tmp_path: Path) -> None:
    folder = copy_kernels(tmp_path)
    assert ran(folder, no_room) == ["2.0", "0"]
    assert ran(folder) == ["2.0", "0"]
