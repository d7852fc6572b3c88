"""Published language models of enwik8: bits per byte of its last 5 MB (docs/RULES.md). Rates were not published."""

from hpcai.formulas.official_rules import LANGUAGE
from hpcai.formulas.published import Published

DATASET = LANGUAGE.dataset
PUBLISHED = (
    Published(
        "Dai et al.", "2019", "arXiv:1901.02860", quality=1.06, note="12 layers, 41 M parameters, with recurrence"
    ),
    Published("Al-Rfou et al.", "2019", "arXiv:1808.04444", quality=1.11, note="12 layers, 44 M parameters"),
)
