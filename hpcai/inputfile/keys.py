"""Declaration of all KEYs: parser, echo, error texts, shipped input and reference table follow from it."""

from dataclasses import replace
from functools import cache
from typing import Any

from hpcai.formulas.precision import PRECISIONS
from hpcai.inputfile.key import (
    BAGGING,
    CLASSIFICATION,
    CLIPPING,
    COMPILATION,
    GRID,
    NETWORK,
    TRAINING,
    Key,
    Kind,
    SectionDeclaration,
)
from hpcai.inputfile.run_keys import RUN_KEYS
from hpcai.inputfile.split import MIXED, MODES, PIPELINE
from hpcai.workloads import registry

_OWN = "the dataset's own"
_MOMENTS = ("adam", "adamw", "lamb")
_DATASETS = ("fashion", "fashion:full", "fashion:PATH", "generated", "imagenet:PATH")
# networks for images of 28 to 64 pixels a side, and for 224
SMALL = ("resnet8", "resnet14", "resnet20", "resnet32", "resnet56")
DECODERS = (
    *("decoder4x128", "decoder2x64", "decoder6x256", "decoder12x512"),
    *("decoder12x768", "decoder24x1024", "decoder32x4096"),
)
LARGE = ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152")


def _trains(name: str, kind: Kind, help: str, **rest: Any) -> Key:
    return Key(name=name, kind=kind, help=help, **{"group": TRAINING, **rest})


def _count(name: str, help: str, low: int = 1, high: int = 2**31 - 1, **rest: Any) -> Key:
    return _trains(name, "integer", help, low=low, high=high, **rest)


def _of_rule(name: str, help: str, optimisers: tuple[str, ...], **rest: Any) -> Key:
    return _trains(name, "real", f"{help}, of {', '.join(optimisers)}", used_by=("OPTIMISER", optimisers), **rest)


def _choice(name: str, help: str, *choices: str, **rest: Any) -> Key:
    """The first choice is the default."""
    return _trains(name, "choice", help, choices=choices, default=choices[0], **rest)


_DECLARED = (
    *RUN_KEYS,
    _trains(
        "DATASET",
        "dataset",
        "images: shipped, Debian's package, a folder; generated; packed ImageNet",
        choices=_DATASETS,
    ),
    _choice(
        "NETWORK",
        "the base model, or the initial network of a search",
        *SMALL,
        *LARGE,
    ),
    _choice("VARIANT", "position of the stride in a bottleneck block", "v1.5", "v1"),
    _count(
        "RESOLUTION",
        "pixels a side",
        low=8,
        high=1024,
        zero=_OWN,
        default=0,
        group=NETWORK,
    ),
    _count("CLASSES", "classes of generated data", low=2, high=65536, zero=_OWN, default=0),
    _count("SAMPLES", "number of training samples, taken from the start of the set", low=2, zero="all", default=0),
    _count("GROUPS", "P: models trained at once", zero="ranks / DEGREE", group=GRID),
    _count(
        "DEGREE",
        "Q: ranks that train one model",
        zero="accelerators of a node, 1 on a CPU",
        group=GRID,
    ),
    _choice("MAPPING", "order of the ranks in the grid", "row", "column", group=GRID),
    _count("BATCH", "NB: samples per rank and step", group=NETWORK),
    _count("EPOCHS", "passes over the training samples; of a trial the maximum", high=10**6, default=8),
    _trains("WARMUP", "real", "epochs of linear learning-rate warm-up", low=0, default=1.0),
    _count("EVALUATE", "epochs between two validations", default=1, sweep=False, group=BAGGING),
    _choice("OPTIMISER", "optimiser", "sgd", "adam", "adamw", "adagrad", "lars", "lamb"),
    _trains("LEARNRATE", "real", "learning rate per 256 samples of a step", low=0, bounds="()", default=0.256),
    _choice("SCALING", "how the learning rate grows with the samples of a step / 256", "linear", "sqrt", "none"),
    _choice("SCHEDULE", "learning rate after the warm-up", "cosine", "linear", "polynomial", "constant"),
    _of_rule("MOMENTUM", "momentum", ("sgd", "lars"), low=0, high=1, bounds="[)", default=0.875),
    _of_rule("BETA1", "decay of the first moment", _MOMENTS, low=0, high=1, bounds="[)", default=0.9),
    _of_rule("BETA2", "decay of the second moment", _MOMENTS, low=0, high=1, bounds="[)", default=0.999),
    _of_rule(
        "EPSILON",
        "summand of the denominator",
        ("adam", "adamw", "adagrad", "lamb"),
        low=0,
        high=1,
        bounds="(]",
        zero="the optimiser's own",
        default=0.0,
    ),
    _of_rule("TRUST", "trust coefficient of the rates of layers", ("lars",), low=0, high=1, bounds="(]", default=0.001),
    _trains("DECAY", "real", "weight decay", low=0, default=3.05e-5),
    _trains(
        "CLIP",
        "real",
        "largest norm of a step's gradient, to which longer ones are scaled",
        low=0,
        zero="any",
        default=0.0,
        group=CLIPPING,
    ),
    _trains(
        "SMOOTHING",
        "real",
        "label smoothing",
        low=0,
        high=1,
        bounds="[)",
        default=0.1,
        group=CLASSIFICATION,
    ),
    _choice(
        *("PRECISION", "arithmetic of the training", *PRECISIONS),
        group=NETWORK,
    ),
    _choice(
        *("WIRE", "type in which gradients are sent; inside nodes or rows fp32", "fp32", "fp16", "bf16", "int8"),
    ),
    _choice("PARALLEL", "how a group divides the training of its model (docs/PARALLEL.md)", *MODES),
    _trains(
        "SPLIT",
        "split",
        "replicas x shards x stages of a group, by data, tensor and pipeline, of PARALLEL mixed",
        default="1x1x1",
        used_by=("PARALLEL", (MIXED,)),
    ),
    _count(
        "CHUNKS",
        "micro-batches of a step, of PARALLEL pipeline and mixed",
        zero="4 a stage, or as many as divide the batch",
        default=0,
        used_by=("PARALLEL", (PIPELINE, MIXED)),
    ),
    _choice(
        *("ALLREDUCE", "algorithm of the all-reduce of gradients; auto = the cheapest at their size"),
        *("flat", "hierarchical", "torus", "auto"),
    ),
    _trains(
        "KERNELS",
        "dataset",
        "who computes the layers: torch's libraries, custom kernels, the faster of both by layer, or a file's kernels",
        choices=("vendor", "custom", "auto", "file:PATH"),
        default="vendor",
    ),
    _choice("COMPILE", "how the network is executed", "off", "torch", "graphs", group=COMPILATION),
    _choice("STAGE", "copy the data to each node before the run; keep = leave the copy there", "none", "local", "keep"),
    _choice(
        "SAMPLER", "how the bootstrap samples of the base models are drawn", "multinomial", "poisson", group=BAGGING
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
        sweep=False,
        group=BAGGING,
    ),
)


@cache
def all_keys() -> tuple[Key, ...]:
    """Every KEY, in the order of the declaration; KEYs of one section only come last."""
    declared = sections()
    own = [replace(key, sections=(section.name,)) for section in declared for key in section.keys]
    return (*(_assembled(key, declared) for key in _DECLARED), *own)


def _assembled(key: Key, declared: tuple[SectionDeclaration, ...]) -> Key:
    """A KEY with its sections and their differing declarations."""
    having = [section for section in declared if key.group in section.groups]
    return replace(
        key,
        sections=tuple(section.name for section in having),
        defaults={section.name: section.defaults[key.name] for section in having if key.name in section.defaults},
        own={section.name: section.own[key.name] for section in having if key.name in section.own},
    )


@cache
def keys_by_name() -> dict[str, Key]:
    """Every KEY by its name."""
    return {key.name: key for key in all_keys()}


def sections() -> tuple[SectionDeclaration, ...]:
    """The sections that the workloads declare, in the order of the documents."""
    return tuple(workload.section for workload in registry.workloads())


def section_names() -> tuple[str, ...]:
    """The names of all sections."""
    return tuple(section.name for section in sections())


@cache
def keys_of(section: str) -> tuple[Key, ...]:
    """The KEYs of a section in the order of their declaration; of the run for an empty name."""
    return tuple(key.of(section) for key in all_keys() if (section in key.sections if section else not key.sections))
