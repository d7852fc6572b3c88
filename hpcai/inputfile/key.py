"""Declaration of a KEY of input.dat: kind, legal values, sections."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, Literal

Value = int | float | str
Setting = Value | tuple[Value, ...]  # value in one case: all values of a listed KEY, else one
Kind = Literal["integer", "real", "choice", "dataset", "folder", "shapes", "power", "limit", "split", "text"]
Bounds = Literal["[]", "[)", "(]", "()"]

# Groups of KEYs: a section has those of the groups that it declares.
TRAINING, NETWORK, GRID, BAGGING, CLASSIFICATION = "training", "network", "grid", "bagging", "classification"
COMPILATION, CLIPPING = "compilation", "clipping"
MOST_VALUES = 20
MOST_TESTS = 10_000
MOST_COLUMNS = 185  # width of the values of one KEY, so that no echoed line exceeds 200 columns
MOST_FOLDER = 100
MOST_TEXT = 100
PATH = "PATH"


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One KEY: `default` is None for a KEY that must be given.

    `group`: sections that declare this group have the KEY; `sections` follows from it, and is empty for a setting of
    the run. `defaults` are those of sections that have another one; `own` is what else a section has of its own, by
    field.
    Where a KEY is a `sweep`, each value is a test of its own; where it is `listed`, all values belong to one test.
    `used_by`: another KEY and those of its values that use this one; with others only the default is legal.
    `suffixed` numbers are written with K, M and G.
    Numbers lie in the interval low..high, closed or open as `bounds` writes it; where `zero` is set, 0 is legal
    besides and means what `zero` says. A choice that ends in PATH stands for any path.
    """

    name: str
    group: str = ""
    sections: tuple[str, ...] = ()
    kind: Kind
    low: int | float = -inf
    high: int | float = inf
    bounds: Bounds = "[]"
    zero: str = ""
    choices: tuple[str, ...] = ()
    default: Setting | None = None
    defaults: Mapping[str, Setting] = field(default_factory=dict, hash=False)
    own: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, hash=False)
    sweep: bool = True
    listed: bool = False
    suffixed: bool = False
    used_by: tuple[str, tuple[str, ...]] | None = None
    help: str

    def of(self, section: str) -> "Key":
        """The KEY as declared in a section."""
        return replace(self, **self.own[section]) if section in self.own else self

    @property
    def most(self) -> int:
        """The largest number of values of the KEY."""
        return MOST_VALUES if self.sweep or self.listed else 1

    def default_in(self, section: str) -> tuple[Value, ...]:
        """The default values in a section; empty for a required KEY."""
        default = self.defaults.get(section, self.default)
        if default is None:
            return ()
        return default if isinstance(default, tuple) else (default,)

    @property
    def allowed(self) -> str:
        """The legal values, as text."""
        if self.kind == "shapes":
            return f"{' | '.join(self.choices)} | a whole number {self._interval}"
        if self.kind == "split":
            return "replicas x shards x stages, as 2x1x2; their product is DEGREE"
        if self.choices and self.kind not in ("power", "limit"):
            return " | ".join(self.choices)
        if self.kind == "text":
            return f"words without # and !, none of them a KEY, up to {MOST_TEXT} characters"
        if self.kind == "folder":
            return f"a name of letters, digits and . _ - that does not start with a dot, up to {MOST_FOLDER} characters"
        noun = "a whole number" if self.kind == "integer" else "a number"
        number = f"{f'0 = {self.zero}, else ' if self.zero else ''}{noun} {self._interval}"
        return " | ".join([*self.choices, number])

    @property
    def _interval(self) -> str:
        above = self.bounds[0] == "("
        if self.high == inf:
            return f"above {self.low}" if above else f"of at least {self.low}"
        below = "below " if self.bounds[1] == ")" else ""
        return f"above {self.low}, up to {self.high}" if above else f"from {self.low} to {below}{self.high}"

    def contains(self, number: int | float) -> bool:
        """Whether a number is within the interval; a special zero is not considered."""
        over = number > self.low if self.bounds[0] == "(" else number >= self.low
        return over and (number < self.high if self.bounds[1] == ")" else number <= self.high)


@dataclass(frozen=True)
class Shipped:
    """A section of the shipped input.dat: its non-default settings, and its remark if the section occurs twice."""

    settings: Mapping[str, tuple[Value, ...]]
    remark: str = ""


@dataclass(frozen=True)
class SectionDeclaration:
    """Declaration of a section of input.dat: its KEYs, and where they differ from the common declaration.

    groups: all KEYs of these groups (hpcai.inputfile.keys). keys: KEYs that no other section has, in their order.
    defaults: by KEY, where they differ. own: by KEY, other fields of its declaration that differ, such as choices.
    """

    name: str
    help: str
    groups: tuple[str, ...] = ()
    keys: tuple[Key, ...] = ()
    defaults: Mapping[str, Setting] = field(default_factory=dict)
    own: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    shipped: tuple[Shipped, ...] = ()
