"""Requirements of a test of `[weather]`: those of any training."""

from hpcai.plan.training_requirements import TRAINING

REQUIREMENTS = TRAINING
