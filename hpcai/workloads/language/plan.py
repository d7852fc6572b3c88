"""Requirements of a test of `[language]`: those of any training."""

from hpcai.plan.training_requirements import TRAINING

REQUIREMENTS = TRAINING
