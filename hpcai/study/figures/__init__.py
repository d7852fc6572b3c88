"""The figures by name: a module each, named like the figure with underscores."""

from pkgutil import iter_modules

from hpcai.choices import Choices
from hpcai.study.figure import Figure

FIGURES: Choices[Figure] = Choices(__name__)


def names() -> list[str]:
    """Names of all figures, as the command line takes them."""
    return sorted(module.name.replace("_", "-") for module in iter_modules(__path__))


def figure(name: str) -> Figure:
    """The figure of a name; KeyError if there is none."""
    return FIGURES[name.replace("-", "_")]()
