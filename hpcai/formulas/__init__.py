"""Formulas of scores, bounds and rules: pure functions of numbers."""
