"""Official rules of the workloads (docs/RULES.md): the problem, and the recipe of the reference by KEY."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hpcai.inputfile.key import Value

SAMPLES = 1_281_167  # training samples of ImageNet
# Training years of ExtremeWeather, and frames in a year. One more year validates: 27 were made, 25 are published.
YEARS, FRAMES = (24, 26), (1456, 1460)
MOST_ERROR = 0.3
SIDE = 224  # pixels of ImageNet's images
CONTEXT = 512  # bytes of a sequence of enwik8
SEQUENCES = 175_781  # of them in its first 90 MB, each with the byte that follows it
SIXTEEN = 16  # bits of the products of which the recipes have another batch

Values = tuple[Value, ...]  # of a KEY that equal the reference, the recipe's own last
ANY: Values = ()
OWN = 0  # of TARGET, RESOLUTION and CLASSES: the dataset's own


@dataclass(frozen=True)
class OfficialRules:
    """Official rules of a workload: dataset, network, epochs, target, penalty; minimal and maximal numbers of samples.

    resolution: rows and columns of a sample. hyperparameters: by KEY the values of the reference, ANY where all are;
    sixteen_bits: those that differ with products of 16 bits. A KEY that is not named has its default in the reference.
    """

    dataset: str
    channels: int
    classes: int
    resolution: tuple[int, int]
    network: str
    variant: str
    samples: tuple[int, int]
    epochs: int
    target: float
    penalty: float
    validation: tuple[int, int] | None = None  # None where the dataset's name implies it
    hyperparameters: Mapping[str, Values] = field(default_factory=dict)
    sixteen_bits: Mapping[str, Values] = field(default_factory=dict)

    def recipe(self, bits: int) -> dict[str, Values]:
        """Layer 8 by KEY, for products of so many bits."""
        network = {"NETWORK": (self.network,), "VARIANT": (self.variant,)}
        return {**network, **self.hyperparameters, **(self.sixteen_bits if bits == SIXTEEN else {})}

    @property
    def resolutions(self) -> Values:
        """Of RESOLUTION: the rows of a sample; of a sequence, which has one row, its bytes, and no file has its own."""
        rows, columns = self.resolution
        return (columns,) if rows == 1 else (OWN, rows)

    def problem(self) -> dict[str, Values]:
        """Layer 9 by KEY."""
        return {
            "DATASET": (self.dataset,),
            "SAMPLES": (0,),
            "EPOCHS": (self.epochs,),
            "TARGET": (OWN, self.target),
            "PENALTY": (self.penalty,),
            "RESOLUTION": self.resolutions,
            "CLASSES": (OWN, self.classes),
        }


IMAGES = OfficialRules(
    dataset="imagenet",
    channels=3,
    classes=1000,
    resolution=(SIDE, SIDE),
    network="resnet50",
    variant="v1.5",
    samples=(SAMPLES, SAMPLES),
    epochs=90,
    target=0.763,
    penalty=5,
    hyperparameters={
        "BATCH": (128,),
        "OPTIMISER": ("sgd",),
        "MOMENTUM": (0.875,),
        "DECAY": (3.05e-5,),
        "LEARNRATE": (0.256,),
        "SCHEDULE": ("cosine",),
        "WARMUP": (8.0,),
        "SMOOTHING": (0.1,),
        "SEED": (10,),
        "SAMPLER": ("multinomial",),
        "EVALUATE": ANY,
    },
    sixteen_bits={"BATCH": (256,)},
)
WEATHER = OfficialRules(
    dataset="extremeweather",
    channels=16,
    classes=4,
    resolution=(768, 1152),
    network="fasterrcnn50",
    variant="v1.5",
    samples=(YEARS[0] * FRAMES[0], YEARS[1] * FRAMES[1]),
    epochs=50,
    target=0.35,
    penalty=10,
    validation=FRAMES,
    hyperparameters={
        "BATCH": (4,),
        "OPTIMISER": ("sgd",),
        "MOMENTUM": (0.9,),
        "DECAY": (1e-4,),
        "LEARNRATE": (0.32,),
        "SCHEDULE": ("cosine",),
        "WARMUP": (1.0,),
        "SEED": (1,),
        "SAMPLER": ("multinomial",),
        "EVALUATE": ANY,
    },
)
LANGUAGE = OfficialRules(
    dataset="enwik8",
    channels=1,
    classes=256,
    resolution=(1, CONTEXT),
    network="decoder12x512",
    variant="v1.5",
    samples=(SEQUENCES, SEQUENCES),
    epochs=50,  # 400,000 steps of 22 sequences of 512 bytes: Dai et al., Transformer-XL, 2019, enwik8, 12 layers
    target=1.11,  # Al-Rfou et al., Character-Level Language Modeling with Deeper Self-Attention, 2019, 12 layers
    penalty=5,
    hyperparameters={
        "BATCH": (32,),
        "OPTIMISER": ("adamw",),
        "BETA1": (0.9,),
        "BETA2": (0.95,),
        "DECAY": (0.1,),
        "CLIP": (1.0,),
        "LEARNRATE": (8.5e-4,),
        "SCALING": ("sqrt",),
        "SCHEDULE": ("cosine",),
        "WARMUP": (1.0,),
        "SEED": (1,),
        "SAMPLER": ("multinomial",),
        "EVALUATE": ANY,
    },
)
SEARCHES = replace(
    IMAGES,
    variant="v1",
    epochs=60,
    target=1 - MOST_ERROR,
    hyperparameters={
        "BATCH": ANY,
        "OPTIMISER": ("sgd",),
        "MOMENTUM": (0.9,),
        "DECAY": (1e-4,),
        "LEARNRATE": (0.1,),
        "SCALING": ("none",),
        "SCHEDULE": ("linear",),
        "WARMUP": (0.0,),
        "SMOOTHING": (0.0,),
        "SEED": (1,),
        "REPLAY": ("off", "rounds"),
        **dict.fromkeys(("DURATION", "TRIALS", "ROUNDS", "WINDOW", "INTERVAL"), ANY),
    },
    sixteen_bits={},
)
