"""Published searches on ImageNet by AIPerf (docs/PAPERS.md)."""

from hpcai.formulas.official_rules import SEARCHES
from hpcai.formulas.published import Published

DATASET = SEARCHES.dataset
NEWS = "China Science Daily, 2022-11-15"
PAPER = "AIPerf, arXiv:2008.07141"
PUBLISHED = (
    Published("Peng Cheng Cloud Brain II", "2020-2022", NEWS, "Ascend 910", 4096, ops=194_527.5e12),
    Published("a new Sunway", "2022", NEWS, "Sunway", ops=53_704.5e12),
    Published("AIPerf", "2020", PAPER, "T4", 32, ops=56.1e12),
)
