"""Which processor this is, as the kernel names it: vendor, family, model, instructions."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from hpcai.formulas.processor_units import ARM, FEATURES

CPUINFO = Path("/proc/cpuinfo")


class Identity(NamedTuple):
    """A processor, as hpcai.formulas.processor_units looks it up."""

    vendor: str
    family: int
    model: int
    features: tuple[str, ...] = ()


def identity(cpuinfo: Path = CPUINFO) -> Identity | None:
    """The first processor of the node; None where the kernel does not name it."""
    try:
        first = cpuinfo.read_text().split("\n\n")[0]
        return _of(dict(_pairs(first)))
    except (OSError, ValueError, KeyError):
        return None


def _pairs(text: str) -> list[tuple[str, str]]:
    return [(name.strip(), value.strip()) for name, _, value in (line.partition(":") for line in text.splitlines())]


def _of(fields: Mapping[str, str]) -> Identity:
    if "CPU implementer" in fields:
        return Identity(ARM, int(fields["CPU implementer"], 16), int(fields["CPU part"], 16))
    features = {*fields["flags"].split()}
    known = tuple(name for name in FEATURES if name in features)
    return Identity(fields["vendor_id"], int(fields["cpu family"]), int(fields["model"]), known)
