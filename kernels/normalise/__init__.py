"""Normalisation to fp32, channels last: images by value * scale + shift, climate fields by (value - mean) / std.

Climate fields are also rotated in longitude and mirrored at the equator.
"""
