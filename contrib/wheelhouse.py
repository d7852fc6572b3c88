"""Collects the wheels that `make install` needs where there is no network; `make wheelhouse` calls it.

What a package needs is read from its wheel, with the markers of the target's Python and processor: pip itself would
take those of the machine that collects. Wheels that are there already are not fetched again, so one folder can serve
several targets.
"""

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from email import message_from_bytes
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import canonicalize_name, parse_wheel_filename

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ("pip", "setuptools>=64", "wheel")  # that build the project and mpi4py
LEGACY = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}  # PEP 600


class Target:
    """The machine that the wheels are for; empty strings stand for those of this one."""

    def __init__(self, platform: str, version: str) -> None:
        self.platforms = platforms(platform)
        self.version = version
        self.environment = {name: str(value) for name, value in default_environment().items()}
        if version:
            self.environment |= {"python_version": version, "python_full_version": f"{version}.0"}
        if linux := re.fullmatch(r"(?:manylinux|musllinux|linux)[\d_]*_(\D\w*)", platform):
            self.environment |= {"platform_system": "Linux", "sys_platform": "linux", "platform_machine": linux[1]}
        major, minor = (version or "{}.{}".format(*sys.version_info)).split(".")[:2]
        python = (int(major), int(minor))
        tags = cpython_tags(python, platforms=self.platforms or None)
        self.tags: set[Tag] = {*tags, *compatible_tags(python, f"cp{major}{minor}", self.platforms or None)}

    @property
    def options(self) -> list[str]:
        """How pip is told."""
        words = [f"--platform={platform}" for platform in self.platforms]
        return words + ([f"--python-version={self.version}"] if self.version else [])


def platforms(wanted: str) -> list[str]:
    """A platform tag and all whose wheels run there as well, for pip matches exactly: this and older C libraries."""
    if alias := re.fullmatch(r"(manylinux\d+)_(\w+)", wanted):
        minor = next((minor for minor, name in LEGACY.items() if name == alias[1]), None)
        wanted = f"manylinux_2_{minor}_{alias[2]}" if minor else wanted
    if not (family := re.fullmatch(r"(manylinux_2|musllinux_1)_(\d+)_(\w+)", wanted)):
        return [wanted] if wanted else []
    name, newest, machine = family[1], int(family[2]), family[3]
    oldest = 5 if name.startswith("many") else 0
    found = []
    for minor in range(newest, oldest - 1, -1):
        found.append(f"{name}_{minor}_{machine}")
        if oldest and minor in LEGACY:
            found.append(f"{LEGACY[minor]}_{machine}")
    return [*found, f"linux_{machine}"]


def project(extras: Sequence[str], target: Target) -> list[Requirement]:
    """What this checkout needs to run on the target, with these extras."""
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report"
        pip("install", "--dry-run", "--ignore-installed", "--no-deps", "-qq", "--report", str(report), str(ROOT))
        (own,) = json.loads(report.read_text("utf-8"))["install"]
    return list(applicable(own["metadata"]["requires_dist"], extras, target.environment))


def applicable(lines: Iterable[str], extras: Iterable[str], environment: dict[str, str]) -> Iterator[Requirement]:
    """The requirements whose markers hold in an environment, for a package with these extras."""
    return (need for need in map(Requirement, lines) if _asked(need, extras, environment))


def _asked(need: Requirement, extras: Iterable[str], environment: dict[str, str]) -> bool:
    marker = need.marker
    return marker is None or any(marker.evaluate(environment | {"extra": extra}) for extra in ("", *extras))


@lru_cache
def requires(wheel: Path) -> tuple[str, ...]:
    """What a wheel says it needs."""
    with ZipFile(wheel) as file:
        name = next(name for name in file.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name))
        return tuple(message_from_bytes(file.read(name)).get_all("Requires-Dist", []))


def fitting(folder: Path, requirement: Requirement, target: Target) -> Path | None:
    """The newest wheel in the folder that fulfils a requirement on the target."""
    found = []
    for path in folder.glob("*.whl"):
        name, version, _, tags = parse_wheel_filename(path.name)
        if name == canonicalize_name(requirement.name) and tags & target.tags:
            found.append((version, path))
    allowed = [pair for pair in found if requirement.specifier.contains(pair[0], prereleases=True)]
    return max(allowed)[1] if allowed else None


class Wanted:
    """Requirements together, one for each package: all versions and extras that are asked of it."""

    def __init__(self, without: Iterable[str], tested: Iterable[Requirement]) -> None:
        self.without = {canonicalize_name(name) for name in without}
        self.tested = {canonicalize_name(each.name): each.specifier for each in tested}
        self.packages: dict[str, Requirement] = {}

    def add(self, requirement: Requirement) -> bool:
        """Whether that asks for more than was asked for before."""
        name = canonicalize_name(requirement.name)
        if name in self.without:
            return False
        before = self.packages.get(name)
        merged = Requirement(name)
        merged.specifier = requirement.specifier & self.tested.get(name, SpecifierSet())
        merged.extras = set(requirement.extras)
        if before:
            merged.specifier &= before.specifier
            merged.extras |= before.extras
        self.packages[name] = merged
        return str(merged) != str(before)


def collect(folder: Path, wanted: Wanted, target: Target) -> None:
    """Fetch wheels until all that they and the requirements need are there."""
    while True:
        wheels = {name: fitting(folder, need, target) for name, need in wanted.packages.items()}
        missing = [f"{name}{wanted.packages[name].specifier}" for name, wheel in wheels.items() if wheel is None]
        if missing:
            options = ["--only-binary=:all:", *target.options]
            pip("download", "-qq", "--no-deps", *options, "--dest", str(folder), *missing)
            continue
        needs = [
            need
            for name, wheel in wheels.items()
            if wheel
            for need in applicable(requires(wheel), wanted.packages[name].extras, target.environment)
        ]
        if sum(map(wanted.add, needs)) == 0:
            return


def pip(*arguments: str) -> None:
    """Run this Python's pip; ends the program as pip ends if that fails."""
    code = subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]).returncode
    if code:
        sys.exit(code)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Collect the wheels that `make install` needs.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--platform", default="", help="such as manylinux_2_28_x86_64; empty: this machine's")
    parser.add_argument("--python-version", default="", help="such as 3.12; empty: that of this Python")
    parser.add_argument("--constraints", default="", help="file of tested versions")
    parser.add_argument("--without", default="", help="packages that the target has, separated by blanks or commas")
    parser.add_argument("--extras", default="", help="of this project, separated by commas")
    parser.add_argument("--needs", default="", help="further requirements, separated by blanks")
    options = parser.parse_args()

    lines = Path(options.constraints).read_text("utf-8").splitlines() if options.constraints else []
    tested = [Requirement(line) for line in lines if line and not line.startswith("#")]
    without = re.split(r"[\s,]+", options.without.strip()) if options.without.strip() else []
    wanted, target = Wanted(without, tested), Target(options.platform, options.python_version)
    for need in [*project(options.extras.split(","), target), *map(Requirement, [*TOOLS, *options.needs.split()])]:
        wanted.add(need)

    options.folder.mkdir(parents=True, exist_ok=True)
    collect(options.folder, wanted, target)
    if source := wanted.packages.get("mpi4py"):  # to be built for an MPI that its wheel cannot use
        source_needs = f"mpi4py{source.specifier}"
        pip("download", "-qq", "--no-deps", "--no-binary=mpi4py", "--dest", str(options.folder), source_needs)
    size = sum(path.stat().st_size for path in options.folder.iterdir())
    print(f"{options.folder}: {len(wanted.packages)} packages, {size / 1e6:.0f} MB in all")


if __name__ == "__main__":
    main()
