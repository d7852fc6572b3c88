"""Matrix products on NVIDIA GPUs: the CUDA source, and the host code that plans and tunes its launches."""
