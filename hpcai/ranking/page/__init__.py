"""The lists as one HTML file that needs no network: `python -P -m hpcai.ranking PATH... --html PAGE`."""
