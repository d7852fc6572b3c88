"""Figure 6 of HPC AI500 V3: utilisation of the devices over time."""

from hpcai.study.figures import FIGURES
from hpcai.study.over_time import OverTime


@FIGURES.register("v3_fig6")
class V3Fig6(OverTime):
    """Of trainings."""

    title = "Utilisation during trainings"
    paper = "HPC AI500 V3, Fig. 6: digits not published"
