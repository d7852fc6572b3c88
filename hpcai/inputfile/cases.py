"""A Problem, the parsed input, and its cases: one test, one row each."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, product
from os.path import expanduser
from typing import Any, Generic, TypeVar

from hpcai.errors import InputError
from hpcai.inputfile.key import Key, Setting, Value
from hpcai.inputfile.keys import keys_of
from hpcai.inputfile.split import Cut, Split, chunks_of, cut_of, split_of
from hpcai.workloads import registry

GRID = ("GROUPS", "DEGREE", "SPLIT")  # which pair up
FILE, METER = "file:", "meter:"
SEEDS = 2**63  # seeds of repetitions wrap around
T = TypeVar("T", int, float, str, float | str)


class _KeyValue(Generic[T]):
    """The value of the KEY that has the attribute's name in capitals; KeyError in a section without the KEY."""

    def __init__(self, meaning: str) -> None:
        self.__doc__ = meaning

    def __set_name__(self, owner: type, name: str) -> None:
        self._key = name.upper()

    def __get__(self, case: "Case", owner: type) -> T:
        value: T = case[self._key]
        return value


@dataclass(frozen=True)
class Case:
    """One test: the settings of the run and one value of every KEY of the section, the grid resolved.

    A KEY that is listed has all its values, as a tuple. A section without a grid runs on all ranks at once.
    KEYs of the run and of several sections are attributes as well; the KEYs of one section are looked up by name.

    SEED is the test's own: the input's and `repetition`, which counts from 0 to REPEAT - 1.
    lost: the groups that have ended because one of their ranks was lost, ascending; the test goes on without them.
    """

    index: int
    workload: str
    settings: Mapping[str, Setting]
    repetition: int = 0
    lost: tuple[int, ...] = ()

    # No annotations, which would make them fields.
    seed = _KeyValue[int]("master seed of the test's random numbers")
    residual = _KeyValue[float]("largest scaled residual that passes")
    energy = _KeyValue[float | str]("watts of a node, or the source of the energy: auto, none, meter:PATH")
    mllog = _KeyValue[str]("whether an MLPerf log of each model is written: on or off")
    checkpoint = _KeyValue[float]("seconds between checkpoints; 0 = none")
    timelimit = _KeyValue[float | str]("seconds after which the run stops; 0 = none; job = before its Slurm job ends")
    dataset = _KeyValue[str]("name of the dataset, followed by the path of its files if it has one")
    network = _KeyValue[str]("name of the base model, or of the initial network of a search")
    variant = _KeyValue[str]("version of the bottleneck block, which says where its stride is")
    resolution = _KeyValue[int]("pixels a side of an image; 0 = the dataset's own")
    classes = _KeyValue[int]("classes of generated data; 0 = the dataset's own")
    samples = _KeyValue[int]("number of training samples; 0 = all of the dataset")
    degree = _KeyValue[int]("Q: ranks that train one model")
    mapping = _KeyValue[str]("order of the ranks in the grid: row or column")
    batch = _KeyValue[int]("NB: samples per rank and step")
    epochs = _KeyValue[int]("passes over the training samples; of a trial the maximum")
    precision = _KeyValue[str]("name of the arithmetic of the training; where PRECISION is listed, look it up by name")
    wire = _KeyValue[str]("name of the type in which gradients are sent")
    parallel = _KeyValue[str]("how a group divides the training of its model")
    allreduce = _KeyValue[str]("name of the algorithm of the all-reduce of gradients")
    kernels = _KeyValue[str]("who computes the layers: vendor, custom, auto or file:PATH")
    stage = _KeyValue[str]("whether the data are copied to each node: none, local, or keep to leave the copy there")
    sampler = _KeyValue[str]("how the bootstrap samples are drawn: multinomial or poisson")
    target = _KeyValue[float]("quality target; 0 = the dataset's own")
    penalty = _KeyValue[float]("exponent n of Valid FLOPS")

    def __getitem__(self, key: str) -> Any:
        """The value of a KEY: int, float or str as declared; a tuple for a listed KEY."""
        return self.settings[key]

    @property
    def trains(self) -> bool:
        """Whether the test trains networks on a dataset."""
        return registry.workload(self.workload).trains

    def without(self, lost: Iterable[int]) -> "Case":
        """The case without these groups too. ValueError if one of them is not there, or if none is left."""
        gone = tuple(sorted({*self.lost, *lost}))
        if gone and ("GROUPS" not in self.settings or gone[0] < 0 or gone[-1] >= self.planned_groups > len(gone)):
            raise ValueError(f"groups {gone} of test {self.index} cannot be left out")
        if len(gone) and len(gone) >= self.planned_groups:
            raise ValueError(f"no group of test {self.index} is left")
        return replace(self, lost=gone)

    @property
    def groups(self) -> int:
        """Models that are trained at once: P, without the groups that are lost."""
        return self.planned_groups - len(self.lost)

    @property
    def planned_groups(self) -> int:
        """P: models that the input asks for; KeyError in a section without a grid."""
        planned: int = self["GROUPS"]
        return planned

    @property
    def credited_groups(self) -> int:
        """Groups whose work is credited: those left of an ensemble, all of a search, whose trials stay."""
        return self.groups if registry.workload(self.workload).ensembles else self.planned_groups

    @property
    def models(self) -> list[int]:
        """The numbers of the models that are trained, ascending, from 0 to P - 1."""
        return [number for number in range(self.planned_groups) if number not in self.lost]

    @property
    def split(self) -> Split:
        """How the Q ranks of a group divide the training of its model."""
        return split_of(self.settings)

    @property
    def replica_batch(self) -> int:
        """Samples of a step of a replica, of all its ranks; all replicas together have |B| = Q x NB."""
        return self.batch * self.split.parts

    @property
    def chunks(self) -> int:
        """Micro-batches of a full step."""
        return chunks_of(self.settings)

    @property
    def cut(self) -> Cut:
        """How each replica is divided, and the samples that a layer computes at once."""
        return cut_of(self.settings)

    @property
    def recording(self) -> str:
        """Path of the recorded search to replay; empty if there is none."""
        return file_of(self.settings.get("REPLAY", ""))

    @property
    def kernels_file(self) -> str:
        """Path of the file with site kernels; empty if there is none."""
        return file_of(self.settings.get("KERNELS", ""))

    @property
    def all_custom(self) -> bool:
        """Whether all layers use custom kernels, or site kernels in their place."""
        return self.kernels == "custom" or bool(self.kernels_file)

    @property
    def data_settings(self) -> Mapping[str, Setting]:
        """The settings with the input's own SEED: generated data are the same in all repetitions."""
        return {**self.settings, "SEED": (self.seed - self.repetition) % SEEDS}


def file_of(value: Setting) -> str:
    """The path in a value file:PATH, with ~ expanded; empty for other values."""
    return path_of(value, FILE)


def path_of(value: Setting, prefix: str) -> str:
    """The path behind a prefix, with ~ expanded; empty for values without the prefix."""
    path = str(value).removeprefix(prefix)
    return expanduser(path) if path != str(value) else ""


@dataclass(frozen=True)
class Section:
    """A section of the input: the values of all its KEYs, and the KEYs with default values."""

    name: str
    values: Mapping[str, tuple[Value, ...]]
    defaulted: frozenset[str]


@dataclass(frozen=True)
class Problem:
    """A legal input: text and SHA-256, command-line overrides, and all settings."""

    headers: tuple[str, str]
    name: str
    text: str
    digest: str
    overrides: tuple[str, ...]
    run: Mapping[str, Value]
    run_defaulted: frozenset[str]
    sections: tuple[Section, ...]

    def cases(self, ranks: int, accelerators: int = 0) -> list[Case]:
        """The tests in order: grids outermost, then the other KEYs as declared, the last one fastest, then repetitions.

        `ranks` of the job, `accelerators` of a node (0 on a CPU). InputError if a grid does not fit the ranks.
        The same on every rank.
        """
        grids = [_grids(section, ranks, accelerators) for section in self.sections]
        wrong = [grid for per_section in grids for grid in per_section if isinstance(grid, str)]
        if wrong:
            raise InputError("\n".join([f"{self.name}: the job has {ranks} ranks", *wrong]))
        settings = [
            (section.name, {**self.run, **grid, **rest})
            for section, per_section in zip(self.sections, grids, strict=True)
            for grid in per_section
            if not isinstance(grid, str)
            for rest in _combinations(section)
        ]
        numbers = count(1)
        return [
            Case(next(numbers), name, {**values, "SEED": (int(self.run["SEED"]) + repetition) % SEEDS}, repetition)
            for name, values in settings
            for repetition in range(int(self.run["REPEAT"]))
        ]


def _grids(section: Section, ranks: int, accelerators: int) -> list[dict[str, Value] | str]:
    """The P x Q grids of a section, empty without a grid; an error for one that does not fit."""
    if "GROUPS" not in section.values:
        return [{}]
    splits: Sequence[Value] = section.values.get("SPLIT", ())
    pairs = zip(section.values["GROUPS"], section.values["DEGREE"], strict=True)
    return [
        _grid(section.name, int(p), int(q) or max(1, accelerators), ranks, _paired(splits, number))
        for number, (p, q) in enumerate(pairs)
    ]


def _paired(values: Sequence[Value], number: int) -> Sequence[Value]:
    """The value of the grid of that number, or the default, of which there is one; none if there is no value."""
    return values[number : number + 1] or values[:1]


def _grid(name: str, groups: int, degree: int, ranks: int, split: Sequence[Value]) -> dict[str, Value] | str:
    """A grid with its SPLIT, if the section has one."""
    p = groups or ranks // degree
    if 1 <= p * degree <= ranks:
        return {"GROUPS": p, "DEGREE": degree, **({"SPLIT": split[0]} if split else {})}
    return f"  [{name}] GROUPS {groups} x DEGREE {degree} needs {max(1, p) * degree}; allowed: up to {ranks}"


def _combinations(section: Section) -> Iterator[dict[str, Setting]]:
    keys = [key for key in keys_of(section.name) if key.name not in GRID]
    for values in product(*(_alternatives(key, section.values[key.name]) for key in keys)):
        yield dict(zip([key.name for key in keys], values, strict=True))


def _alternatives(key: Key, values: tuple[Value, ...]) -> Sequence[Setting]:
    """The values of a KEY in the different tests: each of its values, or all of them together."""
    return (values,) if key.listed else values
