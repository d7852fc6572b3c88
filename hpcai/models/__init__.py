"""Torch modules built from networks, and the operations that they execute."""
