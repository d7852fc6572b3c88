"""Shared code of the CUDA kernels: PTX wrappers, compilation by NVRTC, launches on torch's streams, tiles and tuning.
"""
