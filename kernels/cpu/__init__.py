"""What the kernels in Numba are built of: vector instructions, the register tile, packing, blocks and threads."""
