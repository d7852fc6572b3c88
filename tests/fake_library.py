"""Libraries of a vendor's driver, made for tests: their exported functions are called by ctypes."""

import shutil
import subprocess
from pathlib import Path

import pytest

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def library(source: str, folder: Path, **defined: int) -> str:
    """The path of a library compiled from C, with these macros defined; skips if there is no compiler."""
    if COMPILER is None:
        pytest.skip("NO C COMPILER: CALLS OF THE DRIVER NOT TESTED")
    choice = [f"{name}={value}" for name, value in defined.items()]
    file, made = folder / "driver.c", folder / f"lib{'-'.join(['driver', *choice])}.so"
    file.write_text(source)
    subprocess.run([COMPILER, "-shared", "-fPIC", *(f"-D{each}" for each in choice), file, "-o", made], check=True)
    return str(made)
