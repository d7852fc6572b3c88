"""The one declaration of the KEYs: parser, echo, error texts, shipped input and reference table come from it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, Literal

Value = int | float | str
Setting = Value | tuple[Value, ...]  # of one case: all values of a KEY that is listed, else one
Kind = Literal["integer", "real", "choice", "dataset", "folder", "shapes"]
Bounds = Literal["[]", "[)", "(]", "()"]

MOST_VALUES = 20
MOST_TESTS = 10_000
MOST_COLUMNS = 185  # of the values of one KEY, so that no echoed line is longer than 200 columns
MOST_FOLDER = 100
PATH = "PATH"


@dataclass(frozen=True, slots=True)
class Workload:
    """A section of input.dat."""

    name: str
    help: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One KEY: `sections` is empty for a setting of the run, `default` None for a KEY that must be given.

    `defaults` are those of sections that have another one. Where a KEY is a `sweep`, each value is a test of its own;
    where it is `listed`, all values belong to one test. `suffixed` numbers are written with K, M and G.
    Numbers lie in the interval low..high, closed or open as `bounds` writes it; where `zero` is set, 0 is legal
    besides and means what `zero` says. A choice that ends in PATH stands for any path.
    """

    name: str
    sections: tuple[str, ...] = ()
    kind: Kind
    low: int | float = -inf
    high: int | float = inf
    bounds: Bounds = "[]"
    zero: str = ""
    choices: tuple[str, ...] = ()
    default: Setting | None = None
    defaults: Mapping[str, Setting] = field(default_factory=dict, hash=False)
    sweep: bool = True
    listed: bool = False
    suffixed: bool = False
    help: str

    @property
    def most(self) -> int:
        """How many values the KEY takes."""
        return MOST_VALUES if self.sweep or self.listed else 1

    def default_in(self, section: str) -> tuple[Value, ...]:
        """The values that a section has where it gives none itself; empty for a KEY that it must give."""
        default = self.defaults.get(section, self.default)
        if default is None:
            return ()
        return default if isinstance(default, tuple) else (default,)

    @property
    def allowed(self) -> str:
        """The legal values, in words."""
        if self.kind == "shapes":
            return f"{' | '.join(self.choices)} | a whole number {self._interval}"
        if self.choices:
            return " | ".join(self.choices)
        if self.kind == "folder":
            return f"a name of letters, digits and . _ - that does not start with a dot, up to {MOST_FOLDER} characters"
        noun = "a whole number" if self.kind == "integer" else "a number"
        return f"{f'0 = {self.zero}, else ' if self.zero else ''}{noun} {self._interval}"

    @property
    def _interval(self) -> str:
        above = self.bounds[0] == "("
        if self.high == inf:
            return f"above {self.low}" if above else f"of at least {self.low}"
        below = "below " if self.bounds[1] == ")" else ""
        return f"above {self.low}, up to {self.high}" if above else f"from {self.low} to {below}{self.high}"

    def contains(self, number: int | float) -> bool:
        """Whether a number is within the interval (a zero with a meaning of its own apart)."""
        over = number > self.low if self.bounds[0] == "(" else number >= self.low
        return over and (number < self.high if self.bounds[1] == ")" else number <= self.high)


SECTIONS = (
    Workload(
        "kernels",
        "matrix products and convolutions, ours beside the vendor's; RESOLUTION 0: 224, networks of small images 32",
    ),
    Workload("comm", "collectives, by MPI and by the backend that trains"),
    Workload("ensemble", "image classification by an ensemble of networks"),
)

_OWN = "the dataset's own"
_GRIDDED = ("comm", "ensemble")
_DATASETS = ("fashion", "fashion:full", "fashion:PATH", "generated", "imagenet:PATH")
_SMALL = ("resnet8", "resnet14", "resnet20", "resnet32", "resnet56")
AUTO = "auto"
_SIZES = tuple(1024 * 4**power for power in range(10))
_LARGE = ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152")


def _trains(name: str, kind: Kind, help: str, **rest: Any) -> Key:
    return Key(name=name, kind=kind, help=help, **{"sections": ("ensemble",), **rest})


def _table(name: str, section: str, kind: Kind, help: str, **rest: Any) -> Key:
    return Key(name=name, sections=(section,), kind=kind, help=help, sweep=False, listed=True, **rest)


def _count(name: str, help: str, low: int = 1, high: int = 2**31 - 1, **rest: Any) -> Key:
    return _trains(name, "integer", help, low=low, high=high, **rest)


def _choice(name: str, help: str, *choices: str, **rest: Any) -> Key:
    """The first choice is the default."""
    return _trains(name, "choice", help, choices=choices, default=choices[0], **rest)


KEYS = (
    Key(name="OUTPUT", kind="folder", default="hpcai", sweep=False, help="name of the result folder"),
    Key(name="SEED", kind="integer", low=0, high=2**63 - 1, default=1, sweep=False, help="master seed"),
    Key(
        name="RESIDUAL",
        kind="real",
        low=0,
        high=1000,
        bounds="(]",
        default=16.0,
        sweep=False,
        help="limit of scaled residuals",
    ),
    Key(name="REPEAT", kind="integer", low=1, high=1000, default=1, sweep=False, help="runs of each test"),
    Key(
        name="TIMELIMIT",
        kind="real",
        low=0,
        bounds="(]",
        zero="none",
        default=0.0,
        sweep=False,
        help="seconds from the start after which the run ends in good order",
    ),
    _table(
        "SHAPES",
        "kernels",
        "shapes",
        "a network: the products of its layers; a number: square matrices; auto: squares that fit",
        choices=(AUTO, *_SMALL, *_LARGE),
        low=1,
        high=2**20,
        default=AUTO,
    ),
    _table("SIZES", "comm", "integer", "bytes of a collective", low=4, high=2**40, suffixed=True, default=_SIZES),
    _trains("DATASET", "dataset", "pictures: shipped, Debian's, a folder's; generated; packed", choices=_DATASETS),
    _choice("NETWORK", "the base model", *_SMALL, *_LARGE),
    _choice("VARIANT", "place of the stride in a bottleneck", "v1.5", "v1"),
    _count("RESOLUTION", "pixels a side", low=8, high=1024, zero=_OWN, default=0, sections=("kernels", "ensemble")),
    _count("CLASSES", "classes of generated data", low=2, high=65536, zero=_OWN, default=0),
    _count("SAMPLES", "the first so many training samples", low=2, zero="all", default=0),
    _count("GROUPS", "P: models trained at once", zero="ranks / DEGREE", sections=_GRIDDED, defaults={"comm": 0}),
    _count(
        "DEGREE",
        "Q: ranks that train one model",
        zero="accelerators of a node, 1 on a CPU",
        sections=_GRIDDED,
        defaults={"comm": 0},
    ),
    _choice("MAPPING", "order of the ranks in the grid", "row", "column", sections=_GRIDDED),
    _count("BATCH", "NB: samples per rank and step", sections=("kernels", "ensemble"), defaults={"kernels": 32}),
    _count("EPOCHS", "passes over the training samples", default=8),
    _trains("WARMUP", "real", "epochs of rising learning rate", low=0, default=1.0),
    _count("EVALUATE", "epochs from one validation to the next", default=1, sweep=False),
    _choice("OPTIMISER", "rule of the update", "sgd"),
    _trains("LEARNRATE", "real", "learning rate per 256 samples of a step", low=0, bounds="()", default=0.256),
    _choice("SCHEDULE", "learning rate after the warm-up", "cosine", "linear", "constant"),
    _trains("MOMENTUM", "real", "momentum of the optimiser", low=0, high=1, bounds="[)", default=0.875),
    _trains("DECAY", "real", "weight decay", low=0, default=3.05e-5),
    _trains("SMOOTHING", "real", "label smoothing", low=0, high=1, bounds="[)", default=0.1),
    _choice("PRECISION", "arithmetic of the training", "fp32", "tf32", "fp16", "bf16", "pure16"),
    _choice("WIRE", "type of the gradients when sent", "fp32"),
    _choice("PARALLEL", "what a group divides among its ranks", "data"),
    _choice("ALLREDUCE", "how gradients are summed", "flat"),
    _choice("KERNELS", "whose kernels compute", "vendor"),
    _choice("COMPILE", "how the network is executed", "off", "torch", "graphs"),
    _choice("STAGE", "copy the data to each node first; keep = leave the copy there", "none", "local", "keep"),
    _choice("SAMPLER", "bootstrap of the base models", "multinomial", "poisson"),
    _trains("TARGET", "real", "quality target", low=0.001, high=1, zero=_OWN, default=0.0, sweep=False),
    _trains("PENALTY", "real", "exponent n of Valid FLOPS", low=0, high=20, bounds="(]", default=5.0, sweep=False),
)

BY_NAME = {key.name: key for key in KEYS}


def keys_of(section: str) -> tuple[Key, ...]:
    """The KEYs of a section in the order of their declaration; of the run for an empty name."""
    return tuple(key for key in KEYS if (section in key.sections if section else not key.sections))
