"""[kernels]: matrix products, convolutions and ceilings."""
