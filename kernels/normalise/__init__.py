"""Samples become fp32 with the channels last: pictures of bytes, value * scale + shift by channel; and climate fields,
which are turned and mirrored on the way, (value - mean) / std by channel.
"""
