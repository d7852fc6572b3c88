"""A kernel's folder with a fault in its source, compiled beside the right one."""

import shutil
import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

KERNELS = Path(__file__).parents[1] / "kernels"


def altered(kernel: str, folder: Path, right: str, wrong: str) -> Any:
    """The module numba_cpu of a kernel in which one text is replaced, wherever it stands; it must stand somewhere."""
    copy = folder / kernel
    shutil.copytree(KERNELS / kernel, copy, ignore=shutil.ignore_patterns("__pycache__"))
    places = [path for path in sorted(copy.rglob("*.py")) if right in path.read_text()]
    assert places, f"{right!r} is nowhere in kernels/{kernel}"
    for path in places:
        path.write_text(path.read_text().replace(right, wrong))
    name = f"hpcai.kernels.altered_{folder.name}".replace("-", "_")
    spec = spec_from_file_location(name, copy / "__init__.py", submodule_search_locations=[str(copy)])
    assert spec is not None and spec.loader is not None
    sys.modules[name] = package = module_from_spec(spec)
    spec.loader.exec_module(package)
    return import_module(f"{name}.numba_cpu")
