"""Update rules of the optimisers: the choices of OPTIMISER, one module each.

The modules are pure: they name the torch optimiser that trains, and have the float64 formula that replayed steps are
compared with, the size of the optimiser's state for the memory plan, and the bytes moved for the memory roofline.
"""

from collections.abc import Mapping
from typing import Any

from hpcai.choices import Choices
from hpcai.update_rules.rule import UpdateRule

RULES: Choices[UpdateRule] = Choices(__name__)


def rule_of(settings: Mapping[str, Any]) -> UpdateRule:
    """The update rule of a case's settings, with its hyper-parameters."""
    return RULES[settings["OPTIMISER"]].of(settings)
