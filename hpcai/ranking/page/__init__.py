"""The lists as one HTML file that needs no network: `python -m hpcai.ranking PATH... --html PAGE`."""
