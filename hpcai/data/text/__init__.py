"""Sequences of bytes: generated with a known entropy, or of files."""
