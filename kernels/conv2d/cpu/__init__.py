"""Convolution algorithms on CPUs: implicit GEMM, direct, depth-wise and the weight gradient, in Numba."""
