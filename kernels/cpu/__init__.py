"""Building blocks of the Numba kernels: vector instructions, micro-kernel, packing, blocking and threads."""
