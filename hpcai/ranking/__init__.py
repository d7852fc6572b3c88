"""Lists of results, ranked: `python -m hpcai.ranking PATH...` (docs/RANKING.md)."""
