"""HPCAI bench: a LINPACK for AI machines."""

__version__ = "0.1.0"
