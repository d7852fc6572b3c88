"""Workloads: one folder for each section of the input."""
