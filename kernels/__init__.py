"""Kernels: specifications, reference implementations and providers. Imported as hpcai.kernels."""
