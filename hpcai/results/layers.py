"""The nine layers of a test (docs/RULES.md), and which of their differences a level allows.

All follows from the input and the recorded environment.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from msgspec import structs

from hpcai.formulas.eligibility import INVALID, shown
from hpcai.formulas.official_rules import OfficialRules, Values
from hpcai.formulas.precision import PRECISIONS
from hpcai.inputfile import Case, Key
from hpcai.inputfile.keys import keys_of
from hpcai.inputfile.values import words_for
from hpcai.record.entry import Entry, Row
from hpcai.record.library_variables import layer_of
from hpcai.record.machine import Environment
from hpcai.results.comparable import UNMEASURED
from hpcai.workloads import registry

SUBJECTS = {
    1: "hardware",
    2: "operating system",
    3: "communication libraries",
    4: "accelerator libraries",
    5: "framework",
    6: "programming model",
    7: "workload re-implementation",
    8: "hyper-parameters",
    9: "problem domain",
}
PROBLEM = 9  # the same at every level: the status judges it
# Layers that have to equal the reference at a level; at `system` the framework only in what setup.py allows.
EQUAL: Mapping[str, tuple[int, ...]] = {"hardware": (3, 4, 5, 7, 8), "system": (7, 8), "free": ()}
TORCH, OLDEST_TORCH, ABOVE_TORCH = "2.13.0", (2, 11), (3, 0)  # of constraints.txt; of setup.py
EXECUTION = ("MAPPING", "COMPILE", "STAGE", "ALLREDUCE", "PARALLEL")  # KEYs of layer 6, besides P and Q
# PRECISION and KERNELS have lists or rows of their own at every level; the others change nothing that is measured.
UNRESTRICTED = frozenset(
    {
        *UNMEASURED,
        *("REPEAT", "PRECISION", "KERNELS", "GROUPS", "DEGREE"),
        *EXECUTION,
    }
)
NO_REFERENCE = "no reference for this workload"


@dataclass(frozen=True)
class Layer:
    """One layer of a test: what is said of it anyway, its differences from the reference, and those always allowed."""

    number: int
    facts: str = ""
    differences: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """What is printed of it."""
        found = [self.facts, *self.differences, *self.allowed] if self.facts else [*self.differences, *self.allowed]
        return f"{SUBJECTS[self.number]}: {'; '.join(found) or 'reference'}"


def of_machine(environment: Environment) -> Iterator[Layer]:
    """Layers 1 to 5, which all tests of a run share."""
    yield Layer(1, "any")
    yield Layer(2, "any")
    for number in (3, 4):
        yield Layer(number, "any release", _variables(environment, number))
    yield Layer(5, "", (*_torch(environment), *_variables(environment, 5)))


def of_test(case: Case, environment: Environment, version: str) -> Iterator[Layer]:
    """Layers 6 to 9, which depend on the KEYs of the test."""
    rules: OfficialRules | None = getattr(registry.part(case.workload, "checks"), "RULES", None)
    yield Layer(6, "any", allowed=(*_changed(case), *_variables(environment, 6)))
    yield _implementation(case, environment, version)
    yield Layer(8, "", _recipe(case, rules) if rules else (NO_REFERENCE,))
    problem = _differing(case, rules.problem()) if rules else (NO_REFERENCE,)
    yield Layer(PROBLEM, "" if problem else "reference by its KEYs, and Status judges the data", problem)


def broken(case: Case, environment: Environment) -> tuple[str, ...]:
    """Why a test has not the level that its input claims; nothing if it has."""
    level = str(case["LEVEL"])
    layers = [*of_machine(environment), *of_test(case, environment, "")]
    found = [(each.number, difference) for each in layers for difference in _forbidden(level, each, environment)]
    return tuple(f"level {level}: layer {number}: {difference}" for number, difference in found)


def at_level(entry: Entry, case: Case, environment: Environment) -> Entry:
    """The entry; INVALID with the reasons if its layers break the level that the input claims."""
    if not isinstance(entry, Row) or not (reasons := broken(case, environment)):
        return entry
    return structs.replace(entry, status=INVALID, reasons=(*reasons, *entry.reasons))


def _forbidden(level: str, layer: Layer, environment: Environment) -> tuple[str, ...]:
    if layer.number in EQUAL[level]:
        return layer.differences
    if (level, layer.number) == ("system", 5) and not _supported(_version(environment)):
        return (f"torch {shown(_version(environment))}, reference a release that setup.py allows",)
    return ()


def _variables(environment: Environment, layer: int) -> tuple[str, ...]:
    """Settings of the libraries of a layer by environment variables."""
    found = ((name, value) for name, value in environment.variables.items() if layer_of(name) == layer)
    suffix = "" if layer == 6 else ", reference unset"
    return tuple(f"{name} {shown(value)}{suffix}" for name, value in found)


def _version(environment: Environment) -> str:
    """The release of torch, without the name of its build."""
    return environment.packages.get("torch", "unknown").partition("+")[0]


def _torch(environment: Environment) -> tuple[str, ...]:
    found = _version(environment)
    return () if found == TORCH else (f"torch {shown(found)}, reference {TORCH}",)


def _supported(version: str) -> bool:
    numbers = re.match(r"([0-9]{1,4})\.([0-9]{1,4})", version)
    return numbers is not None and OLDEST_TORCH <= (int(numbers[1]), int(numbers[2])) < ABOVE_TORCH


def _changed(case: Case) -> tuple[str, ...]:
    """The KEYs of execution that have not their default."""
    keys = [key for key in keys_of(case.workload) if key.name in EXECUTION]
    return tuple(_word(case, key) for key in keys if case[key.name] not in key.default_in(case.workload))


def _implementation(case: Case, environment: Environment, version: str) -> Layer:
    """Code of this repository. A file of site kernels is a difference that every level allows."""
    source = environment.source_sha256
    facts = f"version {version}, source {source[:12]}" if source else f"version {version}"
    kernels = (f"KERNELS {shown(case.settings['KERNELS'])}, allowed at every level",) if case.kernels_file else ()
    return Layer(7, facts, () if source else ("source not recorded",), kernels)


def _recipe(case: Case, rules: OfficialRules) -> tuple[str, ...]:
    """KEYs that are not as in the recipe, nor at their default where it does not name them."""
    section, bits = case.workload, PRECISIONS[case.precision].bits
    named, others = rules.recipe(bits), UNRESTRICTED | {*rules.problem()}
    keys = [key for key in (*keys_of(""), *keys_of(section)) if key.name not in others]
    return _differing(case, {key.name: named.get(key.name, key.default_in(section)) for key in keys})


def _differing(case: Case, reference: Mapping[str, Values]) -> tuple[str, ...]:
    """The KEYs of a test whose values are none of the reference's."""
    keys = [key for key in (*keys_of(""), *keys_of(case.workload)) if reference.get(key.name)]
    differ = [key for key in keys if _value(case, key) not in reference[key.name]]
    return tuple(f"{_word(case, key)}, reference {words_for(key, reference[key.name][-1:])}" for key in differ)


def _value(case: Case, key: Key) -> object:
    """The value of a KEY: of SEED the input's, of data the name without a path."""
    value = case.data_settings[key.name]
    return str(value).partition(":")[0] if key.name == "DATASET" else value


def _word(case: Case, key: Key) -> str:
    value = case.data_settings[key.name]
    return f"{key.name} {shown(words_for(key, value if isinstance(value, tuple) else (value,)))}"
