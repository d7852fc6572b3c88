"""SHA-256 of this program's own source."""

import os
from hashlib import sha256
from pathlib import Path

import hpcai

PACKAGE = Path(hpcai.__file__).parent  # its folder kernels is a link in a checkout, and a folder where it is installed
SUFFIXES = (".py", ".cu", ".cuh", ".h")


def files(package: Path = PACKAGE) -> dict[str, Path]:
    """The files of the package and its start program, by name, in the order of the names."""
    walked = (Path(folder, name) for folder, _, names in os.walk(package, followlinks=True) for name in names)
    found = {path.relative_to(package.parent).as_posix(): path for path in walked if path.suffix in SUFFIXES}
    start = package.parent / "bench.py"
    return dict(sorted({**found, **({start.name: start} if start.exists() else {})}.items()))


def digest(package: Path = PACKAGE) -> str:
    """SHA-256 of names, lengths and contents of the files."""
    total = sha256()
    for name, path in files(package).items():
        content = path.read_bytes()
        total.update(f"{name}\n{len(content)}\n".encode())
        total.update(content)
    return total.hexdigest()
