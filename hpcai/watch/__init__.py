"""Watchers: a process on each node that names a rank that died or is stuck, and ends the job. Standard library only."""
