"""Printing of results: report, files, plots."""
