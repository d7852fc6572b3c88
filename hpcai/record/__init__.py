"""Typed records of a result, by subject; each field is declared once with type, bounds and description."""
