"""Projection of trainings to numbers of ranks that were not measured: `python -P -m hpcai.projection RESULT... --ranks
N,...`. Derived in docs/PROJECTION.md. A projection is not a result.
"""
