"""Figure 5 of AIPerf: utilisation and memory of the devices during a search."""

from hpcai.study.figures import FIGURES
from hpcai.study.over_time import OverTime


@FIGURES.register("aiperf_fig5")
class AIPerfFig5(OverTime):
    """Of searches."""

    title = "Utilisation during searches"
    paper = "AIPerf, Fig. 5: digits not published"
    score = "highest_ops"
