"""Checkpoints of a run: where they lie, how they are written, and what a group finds of them when it resumes."""
