"""Detections, rows [ymin, xmin, ymax, xmax, score, class], at most 100 a frame: their evaluation and fusion."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

MOST = 100  # detections a frame, at most
OVERLAP, LOOSE = 0.5, 0.1  # overlap (IoU) with a true box: for targets, and a looser one reported as well
SCORE, CLASS = 4, 5  # columns of a detection; a true box has its class where a detection has its score

Detections: TypeAlias = NDArray[np.float32]  # [n, 6]
Truths: TypeAlias = NDArray[np.int32]  # [m, 5]: ymin, xmin, ymax, xmax, class; a class below 0 marks an unused row
