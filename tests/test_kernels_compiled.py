"""Machine code is kept, and compiled again when any of its sources has changed."""

import hashlib
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import pytest
from checkout import copy_kernels
from launch import ROOT
from sampled_parameters import slow, slow_one_in

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


@pytest.mark.slow
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


@pytest.mark.exhaustive
def test_code_of_other_folders_is_compiled_again_when_a_neighbouring_file_changes(tmp_path: Path) -> None:
    folder = copy_kernels(tmp_path)
    (folder / "elsewhere.py").write_text(ELSEWHERE)
    program = "import elsewhere; print(elsewhere.product(7), sum(elsewhere.product.stats.cache_hits.values()))"
    for factor, hits in ((2, "0"), (2, "1"), (3, "0")):
        (folder / "constants.py").write_text(f"FACTOR = {factor}\n")
        assert ran(folder, program=program) == [str(7 * factor), hits]


@pytest.mark.exhaustive
def test_code_is_kept_in_the_users_folder(tmp_path: Path) -> None:
    folder, kept = copy_kernels(tmp_path / "checkout"), tmp_path / "kept"
    assert ran(folder, NUMBA_CACHE_DIR=str(kept))[1] == "0"
    assert [*kept.glob("numba-*/**/*.nbi")]
    assert ran(folder, NUMBA_CACHE_DIR=str(kept))[1] == "1"
    assert not [*(folder / "kernels").rglob("*.nbi")]


@pytest.mark.exhaustive
def test_copies_of_the_checkout_share_compiled_code(tmp_path: Path) -> None:
    kept = str(tmp_path / "kept")
    assert [ran(copy_kernels(tmp_path / name), NUMBA_CACHE_DIR=kept)[1] for name in ("one", "other")] == ["0", "1"]


def altered(data: bytes) -> bytes:
    """Three bits of the machine code are flipped."""
    middle = bytearray(data)
    for place in (len(data) // 2, len(data) // 2 + 9, len(data) // 2 + 90):
        middle[place] ^= 1
    return bytes(middle)


DAMAGES = (altered, lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"nothing")


@pytest.mark.parametrize(("kind", "damage"), slow_one_in(8, product(["nbi", "nbc"], DAMAGES)))
def test_damaged_code_is_compiled_again(kind: str, damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    folder = copy_kernels(tmp_path)
    ran(folder)
    for path in (folder / "kernels").rglob(f"*.{kind}"):
        path.write_bytes(damage(path.read_bytes()))
    assert ran(folder) == ["2.0", "0"]
    assert ran(folder) == ["2.0", "1"]


PICKLED = """
import os
import pickle

class Attack:
    def __reduce__(self):
        return os.system, ("touch {}",)

data = pickle.dumps(Attack())
"""


@pytest.mark.skipif(os.getuid() != 0, reason="ONLY ROOT CAN GIVE FILES TO OTHERS")
@pytest.mark.parametrize("what", slow(["writable"], ["own", "folder", "file", "writable", "link"]))
def test_code_that_others_may_have_written_is_not_run(what: str, tmp_path: Path) -> None:
    folder, kept, ran_it = copy_kernels(tmp_path / "checkout"), tmp_path / "kept", tmp_path / "ran"
    private = {"NUMBA_CACHE_DIR": str(kept), "TMPDIR": str(tmp_path)}
    assert ran(folder, **private) == ["2.0", "0"]
    scope: dict[str, bytes] = {}
    exec(PICKLED.replace("{}", str(ran_it)), scope)
    for path in kept.rglob("*.nbi"):
        path.write_bytes(hashlib.sha256(scope["data"]).digest() + scope["data"])
        if what == "file":
            os.chown(path, 65534, 65534)
        if what == "link":
            path.rename(path.with_name("other"))
            path.symlink_to("other")
    (place,) = kept.glob("numba-*")
    if what == "folder":
        os.chown(place, 65534, 65534)
    if what == "writable":
        place.chmod(0o777)
    assert ran(folder, **private) == ["2.0", "0"]
    assert ran_it.exists() is (what == "own")  # which shows that the attack works
    assert ran(folder, **private) == ["2.0", "1"]  # compiled into a folder of this user, or the file was replaced
    assert bool([*tmp_path.glob("hpcai-code-0/numba-*/**/*.nbi")]) is (what in ("folder", "writable"))


@pytest.mark.slow
def test_code_is_used_but_not_kept_without_room(tmp_path: Path) -> None:
    folder = copy_kernels(tmp_path)
    assert ran(folder, no_room) == ["2.0", "0"]
    assert ran(folder) == ["2.0", "0"]


@pytest.mark.slow
def test_processes_that_need_the_same_code_at_once_compile_it_once(tmp_path: Path) -> None:
    folder = copy_kernels(tmp_path)
    with ThreadPoolExecutor(3) as pool:
        ended = [pool.submit(ran, folder) for _ in range(3)]
    assert sorted(each.result() for each in ended) == [["2.0", "0"], ["2.0", "1"], ["2.0", "1"]]


HELD = """
import sys
from hpcai.kernels.cpu import compile_lock
lock = compile_lock.CompileLock("a function")
compile_lock.MOST_WAITS = int(sys.argv[1])
print(lock.acquire(), lock._held, flush=True)
sys.stdin.read()
"""


def test_nobody_waits_forever_and_a_killed_process_holds_no_lock(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}

    def process(waits: int) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", HELD, str(waits)],
            cwd=ROOT, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    with process(1) as first, process(2) as second:
        assert first.stdout and second.stdout and first.stdin and second.stdin
        assert sorted([first.stdout.readline(), second.stdout.readline()]) == ["False False\n", "False True\n"]
        first.kill()
        second.kill()
    with process(1) as third:
        assert third.communicate("")[0] == "False True\n"


@pytest.mark.exhaustive
def test_where_no_file_can_be_locked_each_process_compiles(tmp_path: Path) -> None:
    assert ran(copy_kernels(tmp_path), TMPDIR=str(tmp_path), before=no_room)[0] == "2.0"
