"""One folder a section of the input; measure.py of each has run(case, ...)."""
