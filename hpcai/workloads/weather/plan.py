"""Memory and time of a test of `[weather]` before it runs: those of any training."""

from hpcai.plan.training_requirements import TRAINING

REQUIREMENTS = TRAINING
