"""Acceptance of machines: results compared with a baseline by rules (docs/RANKING.md)."""
