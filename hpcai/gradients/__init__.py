"""Gradient summation in a group: algorithm (KEY ALLREDUCE) and wire type (KEY WIRE).

The modules import no torch: vectors, links and the functions that pack are handed to them by
`hpcai.train.communication`, so that plan and verification read digits and bytes without it.
"""
