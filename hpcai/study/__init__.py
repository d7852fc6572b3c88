"""Figures of the papers from results: `python -P -m hpcai.study NAME RESULT...`; a module per figure in `figures/`."""
