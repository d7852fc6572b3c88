"""Attention on CPUs: vector instructions on rows of scores, products of tiles, and the loops around them."""
