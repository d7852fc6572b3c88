"""Checks and choices before the clock starts."""
