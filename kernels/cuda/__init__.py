"""Kernels in CUDA C++: compiled by NVRTC for the GPU at hand, launched on torch's streams and memory."""
