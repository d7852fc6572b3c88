"""Memory and time of a test of `[errors]`: those of any training."""

from hpcai.plan.training_requirements import TRAINING

REQUIREMENTS = TRAINING
