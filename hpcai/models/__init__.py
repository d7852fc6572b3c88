"""Torch modules made from networks, and what they really execute."""
