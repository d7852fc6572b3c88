"""Batch normalisation on CPUs: channel statistics and tables."""
