"""Matrix products on CPUs, in Numba."""
