"""Convolution on NVIDIA GPUs: CUDA sources, and the host code that plans and tunes their launches."""
