"""Figures of the papers from results: `python -m hpcai.study NAME RESULT...`; one module per figure in `figures/`."""
