"""The shipped problem: what bounds training, pictures both ways to use two ranks, by our kernels, weather, search."""

from collections.abc import Mapping

from hpcai.inputfile.echo import setting
from hpcai.inputfile.keys import SECTIONS, Key, Value, keys_of

HEADERS = (
    "HPCAI benchmark input file",
    "Shipped problem: ceilings, pictures on two grids and by our kernels, weather, a search; five minutes on two cores",
)
VALUES: dict[str, dict[str, tuple[Value, ...]]] = {
    "": {},
    "kernels": {"SHAPES": ("resnet8", 1024), "RESOLUTION": (28,)},
    "comm": {"SIZES": (2**10, 2**16, 2**22, 2**26)},
    "ensemble": {
        "DATASET": ("fashion",),
        "GROUPS": (2, 1),
        "DEGREE": (1, 2),
        "BATCH": (32,),
        "EPOCHS": (5,),
        "LEARNRATE": (1.0,),
        "DECAY": (5e-4,),
    },
    "weather": {
        "DATASET": ("generated",),
        "RESOLUTION": (96,),
        "CLASSES": (2,),
        "SAMPLES": (480,),
        "GROUPS": (2,),
        "DEGREE": (1,),
        "BATCH": (16,),
        "EPOCHS": (3,),
        "LEARNRATE": (0.45,),
        "MOMENTUM": (0.9,),
        "DECAY": (1e-4,),
    },
    "nas": {
        "DATASET": ("fashion",),
        "SAMPLES": (2000,),
        "GROUPS": (2,),
        "DEGREE": (1,),
        "BATCH": (32,),
        "EPOCHS": (4,),
        "LEARNRATE": (1.0,),
        "DECAY": (5e-4,),
        "DURATION": (30.0,),
    },
}
# Of sections that stand twice.
AGAIN: dict[str, dict[str, tuple[Value, ...]]] = {
    "ensemble": {
        "DATASET": ("fashion",),
        "GROUPS": (1,),
        "DEGREE": (2,),
        "BATCH": (32,),
        "EPOCHS": (5,),
        "LEARNRATE": (1.0,),
        "DECAY": (5e-4,),
        "KERNELS": ("custom",),
    }
}


def shipped_text() -> str:
    """The shipped input.dat, every KEY of its sections with its values and what they may be."""
    lines = [*HEADERS, *_settings("", VALUES[""])]
    for section in SECTIONS:
        if section.name in VALUES:
            lines += _section(section.name, section.help, VALUES[section.name])
        if section.name in AGAIN:
            lines += _section(section.name, "the same, trained by our kernels", AGAIN[section.name])
    return "\n".join(lines) + "\n"


def _section(name: str, help: str, given: Mapping[str, tuple[Value, ...]]) -> list[str]:
    return ["", f"{f'[{name}]':<27} {help}", *_settings(name, given)]


def _settings(section: str, given: Mapping[str, tuple[Value, ...]]) -> list[str]:
    return [setting(given.get(key.name, key.default_in(section)), key.name, _remark(key)) for key in keys_of(section)]


def _remark(key: Key) -> str:
    if key.choices[1:] and key.kind != "shapes":
        return f"{key.help}: {' | '.join(key.choices)}"
    return f"{key.help}; 0 = {key.zero}" if key.zero else key.help
