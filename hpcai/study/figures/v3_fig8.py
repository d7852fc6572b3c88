"""Figure 8 of HPC AI500 V3: precision x compression of gradients, as figure 4 of V2."""

from hpcai.study.figures import FIGURES
from hpcai.study.figures.v2_fig4 import V2Fig4


@FIGURES.register("v3_fig8")
class V3Fig8(V2Fig4):
    """The same figure under the name of the later paper, which publishes no digits."""

    paper = "HPC AI500 V3, Fig. 8"
    published = None
