"""The one declaration of the KEYs: parser, echo, error texts, shipped input and reference table come from it."""

from typing import Any

from hpcai.formulas.precision import OF_LAYERS, PRECISIONS
from hpcai.inputfile.key import (
    MOST_COLUMNS,
    MOST_FOLDER,
    MOST_TESTS,
    MOST_VALUES,
    PATH,
    Key,
    Kind,
    Setting,
    Value,
    Workload,
)

__all__ = [
    "BY_NAME", "KEYS", "MOST_COLUMNS", "MOST_FOLDER", "MOST_TESTS", "MOST_VALUES", "PATH", "SECTIONS", "TRAINED",
    "Key", "Setting", "Value", "Workload", "keys_of",
]

SECTIONS = (
    Workload(
        "kernels",
        "matrix products and convolutions, ours beside the vendor's; RESOLUTION 0: 224, networks of small images 32",
    ),
    Workload("comm", "collectives, by MPI and by the backend that trains"),
    Workload("ensemble", "image classification by an ensemble of networks"),
    Workload("weather", "extreme weather found in climate fields, by an ensemble of detectors"),
    Workload("nas", "search for networks and hyper-parameters by P groups at once (AIPerf)"),
)

_OWN = "the dataset's own"
TRAINED = ("ensemble", "weather", "nas")  # sections whose tests train networks, and make rows
_PICTURED = ("ensemble", "nas")
_BAGGED = ("ensemble", "weather")
_GRIDDED = ("comm", *TRAINED)
_DATASETS = ("fashion", "fashion:full", "fashion:PATH", "generated", "imagenet:PATH")
_FIELDS = ("generated", "extremeweather:PATH")
_SMALL = ("resnet8", "resnet14", "resnet20", "resnet32", "resnet56")
AUTO = "auto"
_SIZES = tuple(1024 * 4**power for power in range(10))
_LARGE = ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152")
_WHOSE = "whose kernels compute: torch's libraries'"
_OF_PRODUCTS = "types of the products; of square matrices fp64 and int8 besides"
_DETECTING = ("fasterrcnn8", "fasterrcnn18", "fasterrcnn34", "fasterrcnn50")


def _of_run(name: str, kind: Kind, help: str, **rest: Any) -> Key:
    return Key(name=name, kind=kind, help=help, sweep=False, **rest)


def _trains(name: str, kind: Kind, help: str, **rest: Any) -> Key:
    return Key(name=name, kind=kind, help=help, **{"sections": TRAINED, **rest})


def _searches(name: str, kind: Kind, help: str, **rest: Any) -> Key:
    return Key(name=name, sections=("nas",), kind=kind, help=help, **rest)


def _limit(name: str, help: str, high: int = 2**31 - 1, **rest: Any) -> Key:
    return _searches(name, "integer", help, low=1, high=high, zero="no limit", **{"default": 0, **rest})


def _table(name: str, section: str, kind: Kind, help: str, **rest: Any) -> Key:
    return Key(name=name, sections=(section,), kind=kind, help=help, sweep=False, listed=True, **rest)


def _count(name: str, help: str, low: int = 1, high: int = 2**31 - 1, **rest: Any) -> Key:
    return _trains(name, "integer", help, low=low, high=high, **rest)


def _choice(name: str, help: str, *choices: str, **rest: Any) -> Key:
    """The first choice is the default."""
    return _trains(name, "choice", help, choices=choices, default=choices[0], **rest)


KEYS = (
    _of_run("OUTPUT", "folder", "name of the result folder", default="hpcai"),
    _of_run("SEED", "integer", "master seed", low=0, high=2**63 - 1, default=1),
    _of_run("RESIDUAL", "real", "limit of scaled residuals", low=0, high=1000, bounds="(]", default=16.0),
    _of_run("REPEAT", "integer", "runs of each test", low=1, high=1000, default=1),
    _of_run(
        "TIMELIMIT",
        "real",
        "seconds from the start after which the run ends in good order",
        low=0,
        bounds="(]",
        zero="none",
        default=0.0,
    ),
    _of_run(
        "TELEMETRY",
        "real",
        "seconds between samples of processors, memory and GPUs, or a 100th of the test if that is less",
        low=0.25,
        high=3600,
        zero="none",
        default=30.0,
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
    _trains(
        "DATASET",
        "dataset",
        "pictures: shipped, Debian's, a folder's; generated; packed",
        choices=_DATASETS,
        own={"weather": {"choices": _FIELDS, "help": "climate fields: generated; published files, or packed ones"}},
    ),
    _choice(
        "NETWORK",
        "the base model, or what a search begins with",
        *_SMALL,
        *_LARGE,
        defaults={"weather": _DETECTING[0]},
        own={"weather": {"choices": _DETECTING, "help": "the base model: Faster R-CNN on a ResNet with a pyramid"}},
    ),
    _choice("VARIANT", "place of the stride in a bottleneck", "v1.5", "v1", defaults={"nas": "v1"}),
    _count(
        "RESOLUTION",
        "pixels a side",
        low=8,
        high=1024,
        zero=_OWN,
        default=0,
        sections=("kernels", *TRAINED),
        own={"weather": {"help": "rows of the grid of generated fields, which has half as many columns more"}},
    ),
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
    _count("BATCH", "NB: samples per rank and step", sections=("kernels", *TRAINED), defaults={"kernels": 32}),
    _count("EPOCHS", "passes over the training samples; in a trial, at most", default=8, defaults={"nas": 60}),
    _trains("WARMUP", "real", "epochs of rising learning rate", low=0, default=1.0, defaults={"nas": 0.0}),
    _count("EVALUATE", "epochs from one validation to the next", default=1, sweep=False, sections=_BAGGED),
    _choice("OPTIMISER", "rule of the update", "sgd"),
    _trains("LEARNRATE", "real", "learning rate per 256 samples of a step", low=0, bounds="()", default=0.256),
    _choice("SCHEDULE", "learning rate after the warm-up", "cosine", "linear", "constant", defaults={"nas": "linear"}),
    _trains("MOMENTUM", "real", "momentum of the optimiser", low=0, high=1, bounds="[)", default=0.875),
    _trains("DECAY", "real", "weight decay", low=0, default=3.05e-5),
    _trains(
        "SMOOTHING",
        "real",
        "label smoothing",
        low=0,
        high=1,
        bounds="[)",
        default=0.1,
        defaults={"nas": 0.0},
        sections=_PICTURED,
    ),
    _choice(
        *("PRECISION", "arithmetic of the training", *PRECISIONS),
        sections=("kernels", *TRAINED),
        own={"kernels": {"choices": OF_LAYERS, "sweep": False, "listed": True, "help": _OF_PRODUCTS}},
    ),
    _choice("WIRE", "type of the gradients when sent", "fp32"),
    _choice("PARALLEL", "what a group divides among its ranks", "data"),
    _choice("ALLREDUCE", "how gradients are summed", "flat"),
    _trains(
        "KERNELS",
        "dataset",
        f"{_WHOSE}, ours, of each layer the faster ones, or those of a file",
        choices=("vendor", "custom", "auto", "file:PATH"),
        default="vendor",
        own={"nas": {"choices": ("vendor", "custom", "file:PATH"), "help": f"{_WHOSE}, ours, or those of a file"}},
    ),
    _choice("COMPILE", "how the network is executed", "off", "torch", "graphs", sections=("ensemble",)),
    _choice("STAGE", "copy the data to each node first; keep = leave the copy there", "none", "local", "keep"),
    _choice("SAMPLER", "bootstrap of the base models", "multinomial", "poisson", sections=_BAGGED),
    _limit("TRIALS", "a search ends after so many trials"),
    _limit("ROUNDS", "a search ends after so many trials of each group"),
    _searches(
        "DURATION", "real", "seconds after which a search ends", low=0, bounds="(]", zero="no limit", default=3600.0
    ),
    _searches(
        "WINDOW",
        "real",
        "a search ends when its score has changed by less than 1 % in so many seconds",
        low=0,
        bounds="(]",
        zero="never",
        default=0.0,
    ),
    _searches(
        "INTERVAL",
        "real",
        "seconds between the lines of the score over time",
        low=0,
        bounds="(]",
        zero="a 50th of the search, at most 360",
        default=0.0,
        sweep=False,
    ),
    _count("PATIENCE", "epochs without a smaller validation loss, at most, in a trial", default=20, sections=("nas",)),
    _limit("DEPTH", "convolutions of a network, at most", default=200),
    _limit("PARAMETERS", "trained values of a network, at most", high=2**40, suffixed=True),
    _searches("STRATEGY", "choice", "how networks are chosen", choices=("bayes", "random"), default="bayes"),
    _searches("INITIAL", "choice", "weights a trial begins with", choices=("inherited", "fresh"), default="inherited"),
    _searches(
        "REPLAY",
        "dataset",
        "what a trial may know: all results so far; those of earlier rounds, so that runs repeat; a recorded search",
        choices=("off", "rounds", "file:PATH"),
        default="off",
        sweep=False,
    ),
    _searches(
        "LAG", "integer", "rounds that REPLAY rounds looks back past", low=1, high=1000, default=1, sweep=False
    ),
    _trains("TARGET", "real", "quality target", low=0.001, high=1, zero=_OWN, default=0.0, sweep=False),
    _trains(
        "PENALTY",
        "real",
        "exponent n of Valid FLOPS",
        low=0,
        high=20,
        bounds="(]",
        default=5.0,
        defaults={"weather": 10.0},
        sweep=False,
        sections=_BAGGED,
    ),
)

BY_NAME = {key.name: key for key in KEYS}


def keys_of(section: str) -> tuple[Key, ...]:
    """The KEYs of a section in the order of their declaration; of the run for an empty name."""
    return tuple(key.of(section) for key in KEYS if (section in key.sections if section else not key.sections))
