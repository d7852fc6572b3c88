"""Lists of results, ranked: `python -P -m hpcai.ranking PATH...` (docs/RANKING.md)."""
